import { DomainError } from "../errors.ts";
import type { Topics } from "../topics.ts";
import type { Transact } from "../work.ts";
import type { NewEvent } from "./event-input.ts";
import type { Effect } from "./events.ts";
import type { Ingest } from "./group-commit.ts";
import type { Ingested } from "./ingest.ts";
import { awaitEvents, WAIT_MAX_EVENTS } from "./wait.ts";

/** What the sender of one event is told. */
export type EventResult = {
  eventId: string | null;
  status: "PENDING" | "PROCESSED" | "DUPLICATE" | "REJECTED" | "FAILED";
  skipped: boolean;
  message: string;
  existingEventId?: string;
  effects?: Effect[];
};

export type BatchResult = { accepted: number; rejected: number; skipped: number; results: EventResult[] };

type Counter = { inc(by: number): void };
export type TrackParts = {
  ingest: Ingest;
  transact: Transact;
  topics: Topics;
  metrics: { eventsAccepted: Counter; eventsRejected: Counter; eventsSkipped: Counter };
};

/** Stores one checked event. With `wait`, answers its outcome if it is known within WAIT_MAX_MS. */
export const trackOne = async (parts: TrackParts, event: NewEvent, wait: boolean): Promise<EventResult> => {
  const { results } = await trackBatch(parts, [event], wait);
  return results[0]!;
};

/**
 * Stores the good events of a batch and answers each in its place; an input that is an error is REJECTED with
 * its text.
 */
export const trackBatch = async (
  parts: TrackParts,
  inputs: readonly (NewEvent | DomainError)[],
  wait: boolean,
): Promise<BatchResult> => {
  const events = inputs.filter((input): input is NewEvent => !(input instanceof DomainError));
  const waiting = wait && events.length > 0 && events.length <= WAIT_MAX_EVENTS;
  const signals = waiting ? await awaitEvents(parts, events) : undefined;
  try {
    const stored = await parts.ingest(events);
    let next = 0;
    const results = inputs.map((input) =>
      input instanceof DomainError ? rejected(input) : resultOf(stored[next++]!),
    );
    const counts = countsOf(results);
    parts.metrics.eventsAccepted.inc(counts.accepted);
    parts.metrics.eventsRejected.inc(counts.rejected);
    parts.metrics.eventsSkipped.inc(counts.skipped);
    if (signals) await signals.settle(results);
    return { ...counts, results };
  } finally {
    signals?.close();
  }
};

const rejected = ({ message }: DomainError): EventResult => ({
  eventId: null,
  status: "REJECTED",
  skipped: false,
  message,
});

const resultOf = (stored: Ingested): EventResult => {
  if (stored.kind === "stored") {
    return {
      eventId: stored.eventId,
      status: "PENDING",
      skipped: false,
      message: "Event queued for processing",
    };
  }
  const message = stored.isSameBody
    ? "An event with this idempotencyKey was accepted before"
    : "An event with this idempotencyKey was accepted before with a different body; the first one stands";
  const { existingEventId } = stored;
  return { eventId: existingEventId, status: "DUPLICATE", skipped: true, message, existingEventId };
};

const countsOf = (results: readonly EventResult[]): Omit<BatchResult, "results"> => {
  const skipped = results.filter((result) => result.status === "DUPLICATE").length;
  const refused = results.filter((result) => result.status === "REJECTED").length;
  return { accepted: results.length - skipped - refused, rejected: refused, skipped };
};
