import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { answerOf, type Api, ApiFailure, type Passing, tryOnce } from "./call-api.ts";

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

export type BatchClientOptions = {
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
