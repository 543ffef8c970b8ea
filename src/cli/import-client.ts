import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { answerOf, type Api, ApiFailure, type Passing, tryOnce } from "./call-api.ts";
import { keyHeader } from "./api-flags.ts";

export type Verdict = "accepted" | "skipped" | "rejected";
export type ImportedEvent = { verdict: Verdict; message: string };

export type RetryTimes = {
  /** Maximum number of attempts per batch. */
  attempts: number;
  /** The first delay; it doubles up to `maxDelayMs`. */
  baseDelayMs: number;
  maxDelayMs: number;
};

/** About four minutes. */
export const RETRY_TIMES: RetryTimes = { attempts: 12, baseDelayMs: 500, maxDelayMs: 30_000 };

/** Maximum delay that a server may request; beyond it the import stops and can be resumed. */
const RETRY_AFTER_MAX_MS = 15 * 60_000;
/** Maximum number of attempts per batch when the server itself requests the delays. */
const OBEDIENT_ATTEMPTS = 60;

/** Of the API that a batch client calls. */
export const IMPORT_API = {
  timeoutMs: 60_000,
  remedies: {
    400: "the server refused the whole request",
    402: "the plan's event quota does not cover this batch; nothing of it was stored",
    403: "the key may not send events: it needs the scope events:write, and its project must be active",
  },
} as const;

type BatchClientOptions = {
  /** Its `stop` aborts requests in progress. */
  api: Api;
  retry: RetryTimes;
  /** Ends delays between attempts; requests in progress complete. */
  stop: AbortSignal;
  /** Called before a delay. */
  onWait(reason: string, waitMs: number): void;
};

const Answer = z.object({
  results: z.array(
    z.object({ status: z.string(), skipped: z.boolean().optional(), message: z.string().nullish() }),
  ),
});

/** Results in the order of the events; `isRepeated` when an earlier attempt may have stored them already. */
export type BatchResult = { results: ImportedEvent[]; isRepeated: boolean };
export type BatchClient = (events: readonly string[]) => Promise<BatchResult>;

/**
 * Creates the function that posts events (JSON texts) and returns one result for each, in order. Network
 * errors, 429 and 5xx are retried; a batch that is too large for a proxy is split in half.
 * @throws ApiFailure when a retry would not help, or has not
 */
export const createBatchClient = (options: BatchClientOptions): BatchClient => {
  const { api } = options;
  const sendAll: BatchClient = async (events) => {
    const body = `{"events":[${events.join(",")}]}`;
    let isRepeated = false;
    for (let attempt = 1; ; attempt++) {
      const outcome = await tryOnce(api, "/events/batch", body);
      if ("passing" in outcome) {
        isRepeated ||= outcome.isUnknown;
        await pause(options, outcome, attempt);
      } else if (outcome.status === 413) return sendHalves(events);
      else return { results: resultsOf(api, answerOf(api, outcome, Answer), events.length), isRepeated };
    }
  };
  const sendHalves: BatchClient = async (events) => {
    if (events.length === 1) {
      const message = "413: the server, or a proxy before it, does not take a request of this size";
      return { results: [{ verdict: "rejected", message }], isRepeated: false };
    }
    const middle = Math.ceil(events.length / 2);
    const [first, second] = [await sendAll(events.slice(0, middle)), await sendAll(events.slice(middle))];
    return {
      results: [...first.results, ...second.results],
      isRepeated: first.isRepeated || second.isRepeated,
    };
  };
  return sendAll;
};

const pause = async (
  { retry, stop, onWait }: BatchClientOptions,
  { passing, waitMs }: Passing,
  attempt: number,
) => {
  const limit = waitMs === undefined ? retry.attempts : OBEDIENT_ATTEMPTS;
  if (attempt >= limit) throw new ApiFailure(`gave up after ${attempt} attempts: ${passing}`);
  if (waitMs !== undefined && waitMs > RETRY_AFTER_MAX_MS)
    throw new ApiFailure(`${passing}; the server asks to retry in ${Math.ceil(waitMs / 60_000)} minutes`);
  const backoffMs = Math.min(retry.maxDelayMs, retry.baseDelayMs * 2 ** (attempt - 1));
  const pauseMs = waitMs ?? Math.round(backoffMs * (0.75 + Math.random() / 2));
  onWait(passing, pauseMs);
  await delay(pauseMs, undefined, { signal: stop });
};

const resultsOf = ({ url }: Api, { results }: z.output<typeof Answer>, expected: number): ImportedEvent[] => {
  if (results.length !== expected)
    throw new ApiFailure(`${url} answered ${results.length} results for ${expected} events: is this Laurel?`);
  return results.map(({ status, skipped, message }) => ({
    verdict: skipped || status === "DUPLICATE" ? "skipped" : status === "REJECTED" ? "rejected" : "accepted",
    message: message ?? status,
  }));
};

const Waiting = z.object({ waiting: z.number(), oldestSeconds: z.number().nullable() });
const Backlog = z.object({ events: Waiting, commits: Waiting });
type Backlog = z.output<typeof Backlog>;

/** What the project has waiting; `most`: the most that waited during this import's end. */
export type Processing = { waiting: number; commits: number; most: number; eventsPerSecond: number };

/**
 * How the processing of an import's events stands at the end: DONE; WAITING when nobody waited for the rest;
 * STALLED when nothing moved for too long; UNKNOWN when the server did not say.
 */
export type ProcessingEnd = "DONE" | "WAITING" | "STALLED" | "UNKNOWN";

export type WaitOptions = {
  /** The server's address, without a path of the API. */
  url: string;
  key: string;
  /** Ends the wait. */
  stop: AbortSignal;
  /** Ends it when nothing has moved for so long, in milliseconds; default STALLED_AFTER_MS. */
  stalledAfterMs?: number;
  onProcessing(processing: Processing): void;
};

const LOOK_EVERY_MS = 500;
const LOOK_TIMEOUT_MS = 10_000;
/** Looks in a row that may fail before the wait ends. */
const FAILURES_MAX = 60;
/** Longer than the backlog stands still while workers are restarted. */
const STALLED_AFTER_MS = 120_000;
/** Ages are whole seconds of the server. */
const AGE_SLACK_SECONDS = 2;

/**
 * Waits until the events that were accepted so far have been processed and their effects published. Events
 * that others send meanwhile are not waited for, nor those that wait for another try.
 */
export const waitProcessed = async (options: WaitOptions): Promise<ProcessingEnd> => {
  const { url, key, stop, onProcessing } = options;
  const api = { url, headers: keyHeader(key), stop, timeoutMs: LOOK_TIMEOUT_MS };
  const startMs = performance.now();
  const isStalled = stallCheck(options.stalledAfterMs ?? STALLED_AFTER_MS);
  let [most, failures] = [0, 0];
  while (!stop.aborted) {
    const found = await look(api).catch(() => undefined);
    if (found === undefined || failures === FAILURES_MAX) return stop.aborted ? "WAITING" : "UNKNOWN";
    failures = found === "FAILED" ? failures + 1 : 0;
    if (found !== "FAILED") {
      const seconds = (performance.now() - startMs) / 1_000;
      if (isOver(found, seconds)) return "DONE";
      const { events, commits } = found;
      most = Math.max(most, events.waiting);
      const eventsPerSecond = Math.round((most - events.waiting) / Math.max(0.001, seconds));
      onProcessing({ waiting: events.waiting, commits: commits.waiting, most, eventsPerSecond });
      if (isStalled(found)) return "STALLED";
    }
    await delay(LOOK_EVERY_MS, undefined, { signal: stop }).catch(() => undefined);
  }
  return "WAITING";
};

/** Returns a check of whether as much has waited for so long. */
const stallCheck = (afterMs: number): ((backlog: Backlog) => boolean) => {
  let [last, movedMs] = ["", 0];
  return ({ events, commits }) => {
    const now = `${events.waiting} ${commits.waiting}`;
    if (now !== last) [last, movedMs] = [now, performance.now()];
    return performance.now() - movedMs >= afterMs;
  };
};

const isOver = ({ events, commits }: Backlog, seconds: number): boolean =>
  [events, commits].every(
    ({ waiting, oldestSeconds }) =>
      waiting === 0 || (oldestSeconds !== null && oldestSeconds + AGE_SLACK_SECONDS < seconds),
  );

/** FAILED: a later look may help. @throws ApiFailure where it would be answered in the same way */
const look = async (api: Api): Promise<Backlog | "FAILED"> => {
  const outcome = await tryOnce(api, "/events/backlog", undefined);
  return "passing" in outcome ? "FAILED" : answerOf(api, outcome, Backlog);
};
