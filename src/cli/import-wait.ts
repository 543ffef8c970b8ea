import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";

const Backlog = z.object({
  events: z.object({ waiting: z.number(), oldestSeconds: z.number().nullable() }),
  commits: z.object({ waiting: z.number(), oldestSeconds: z.number().nullable() }),
});
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
  const startMs = performance.now();
  const isStalled = stallCheck(options.stalledAfterMs ?? STALLED_AFTER_MS);
  let failures = 0;
  let first: Backlog | undefined;
  while (!options.stop.aborted) {
    const found = await look(options);
    if (found === "REFUSED" || failures === FAILURES_MAX) return "UNKNOWN";
    failures = found === "FAILED" ? failures + 1 : 0;
    if (found !== "FAILED") {
      first ??= found;
      const seconds = (performance.now() - startMs) / 1_000;
      if (isOver(found, seconds)) return "DONE";
      options.onProcessing(progressOf(first, found, seconds));
      if (isStalled(found)) return "STALLED";
    }
    await delay(LOOK_EVERY_MS, undefined, { signal: options.stop }).catch(() => undefined);
  }
  return "WAITING";
};

/** Returns a check of whether as much has waited for so long. */
const stallCheck = (afterMs: number): ((backlog: Backlog) => boolean) => {
  let last = "";
  let movedMs = performance.now();
  return ({ events, commits }) => {
    const now = `${events.waiting} ${commits.waiting}`;
    if (now !== last) movedMs = performance.now();
    last = now;
    return performance.now() - movedMs >= afterMs;
  };
};

const isOver = ({ events, commits }: Backlog, seconds: number): boolean =>
  [events, commits].every(
    ({ waiting, oldestSeconds }) =>
      waiting === 0 || (oldestSeconds !== null && oldestSeconds + AGE_SLACK_SECONDS < seconds),
  );

const progressOf = (first: Backlog, { events, commits }: Backlog, seconds: number): Processing => {
  const most = Math.max(first.events.waiting, events.waiting);
  const done = most - events.waiting;
  const eventsPerSecond = Math.round(done / Math.max(0.001, seconds));
  return { waiting: events.waiting, commits: commits.waiting, most, eventsPerSecond };
};

/** REFUSED: a later look would be answered in the same way. */
const look = async ({ url, key, stop }: WaitOptions): Promise<Backlog | "FAILED" | "REFUSED"> => {
  try {
    const response = await fetch(`${url}/api/v1/events/backlog`, {
      headers: { accept: "application/json", "x-api-key": key },
      redirect: "manual",
      signal: AbortSignal.any([stop, AbortSignal.timeout(LOOK_TIMEOUT_MS)]),
    });
    const text = await response.text();
    if (response.status === 429 || response.status >= 500) return "FAILED";
    if (response.status !== 200) return "REFUSED";
    const answer = Backlog.safeParse(JSON.parse(text));
    return answer.success ? answer.data : "REFUSED";
  } catch {
    return "FAILED";
  }
};
