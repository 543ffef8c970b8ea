import { setTimeout as delay } from "node:timers/promises";
import { outageOf } from "../kernel/outages.ts";
import { processedTopic, type Topics } from "../kernel/events/topics.ts";
import type { Transact } from "../kernel/work.ts";
import { type NewEvent, projectsOf } from "./event-input.ts";
import type { EventResult } from "./event-result.ts";
import { readStatuses, type StatusOfEvent } from "./events.ts";

/** How long `?wait=true` waits before it responds with PENDING, in ms. */
export const WAIT_MAX_MS = 2_000;
/** Polling interval in ms, for signals that get lost or while Redis is unavailable. */
const LOOK_EVERY_MS = 250;
/** Maximum events of one request that can be waited for. */
export const WAIT_MAX_EVENTS = 50;

/**
 * Waits until the PENDING results are decided or the time is up, and fills in the outcome known then. To be
 * called after the commit: it subscribes first, then reads. The workers' signal only triggers a read; the
 * database has the outcome.
 */
export const settle = async (
  { transact, topics }: { transact: Transact; topics: Topics },
  events: readonly NewEvent[],
  results: readonly EventResult[],
): Promise<void> => {
  const pending = new Map(results.filter((r) => r.status === "PENDING").map((r) => [r.eventId!, r]));
  const asked = events.filter((event) => pending.has(event.id));
  if (asked.length === 0) return;
  const signals = await listen(topics, new Set(asked.map((event) => event.h)));
  try {
    const deadlineMs = performance.now() + WAIT_MAX_MS;
    while (pending.size > 0) {
      const signal = signals.next();
      for (const status of await readInTime(transact, asked, deadlineMs)) {
        if (status.status === "PENDING") continue;
        Object.assign(pending.get(status.eventId) ?? {}, outcome(status));
        pending.delete(status.eventId);
      }
      if (performance.now() > deadlineMs) return;
      if (pending.size > 0) await signal;
    }
  } finally {
    signals.close();
  }
};

type SignalStream = { next(): Promise<void>; close(): void };

const listen = async (topics: Topics, parts: ReadonlySet<number>): Promise<SignalStream> => {
  let wake = (): void => undefined;
  let timer: NodeJS.Timeout | undefined;
  const listening = [...parts].map((part) => topics.subscribe(processedTopic(part), () => wake()));
  const ends = await Promise.allSettled(listening);
  return {
    next: () =>
      new Promise<void>((resolve) => {
        wake = resolve;
        clearTimeout(timer);
        timer = setTimeout(resolve, LOOK_EVERY_MS);
      }),
    close: () => {
      clearTimeout(timer);
      for (const end of ends) if (end.status === "fulfilled") end.value();
    },
  };
};

/**
 * Reads the outcome until the time is up: the events are stored, so a database that stalls or fails now is
 * only a reason to respond with PENDING.
 */
const readInTime = async (
  transact: Transact,
  events: readonly NewEvent[],
  deadlineMs: number,
): Promise<StatusOfEvent[]> => {
  const late = new AbortController();
  const read = readAll(transact, events).catch((error: unknown) => {
    if (outageOf(error) === undefined) throw error;
    return [];
  });
  try {
    const waitMs = Math.max(LOOK_EVERY_MS, deadlineMs - performance.now());
    return await Promise.race([read, delay(waitMs, [], { signal: late.signal }).catch(() => [])]);
  } finally {
    late.abort();
    read.catch(() => undefined);
  }
};

/** Reads the statuses of events that may belong to several projects. */
const readAll = (transact: Transact, events: readonly NewEvent[]): Promise<StatusOfEvent[]> =>
  transact(async (work) => {
    const statuses: StatusOfEvent[] = [];
    for (const projectId of projectsOf(events)) {
      const ids = events.filter((event) => event.p === projectId).map((event) => event.id);
      statuses.push(...(await readStatuses(work, projectId, ids)));
    }
    return statuses;
  });

const outcome = ({ status, error, effects, effectsLeftOut }: StatusOfEvent): Partial<EventResult> => {
  const shown = effectsLeftOut === undefined ? { effects } : { effects, effectsLeftOut };
  if (status === "PROCESSED") return { status, message: "Event processed", ...shown };
  return { status: status === "FAILED" ? "FAILED" : "REJECTED", message: error ?? "Event failed", ...shown };
};
