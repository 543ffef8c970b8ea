import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { keyHeader } from "./api-flags.ts";
import { answerOf, type Api, tryOnce } from "./call-api.ts";

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
