import { DomainError } from "../kernel/errors.ts";
import type { Topics } from "../kernel/events/topics.ts";
import type { Transact } from "../kernel/work.ts";
import type { NewEvent } from "./event-input.ts";
import type { EventResult } from "./event-result.ts";
import type { Ingest } from "./group-commit.ts";
import type { Ingested } from "./ingest.ts";
import type { Sender } from "./meter.ts";
import { settle, WAIT_MAX_EVENTS } from "./wait.ts";

export type BatchResult = { accepted: number; rejected: number; skipped: number; results: EventResult[] };

type Counter = { inc(by: number): void };
export type TrackParts = {
  ingest: Ingest;
  transact: Transact;
  topics: Topics;
  metrics: { eventsAccepted: Counter; eventsRejected: Counter; eventsSkipped: Counter };
};

/** `settle` waits for the outcome, at most WAIT_MAX_MS; to be called after the events are committed. */
export type Tracked<T> = {
  result: T;
  settle: (parts: Pick<TrackParts, "transact" | "topics">) => Promise<T>;
};

type Batch = { sender: Sender; inputs: readonly (NewEvent | DomainError)[] };

/**
 * Stores the valid events of a tenant's batch and returns a result for each in order; an input that is an
 * error is REJECTED with its message.
 * @throws DomainError PAYMENT_REQUIRED PLAN_LIMIT_EXCEEDED
 */
export const trackBatch = async (
  parts: Pick<TrackParts, "ingest" | "metrics">,
  { sender, inputs }: Batch,
): Promise<Tracked<BatchResult>> => {
  const events = inputs.filter((input): input is NewEvent => !(input instanceof DomainError));
  const stored = await parts.ingest(sender, events);
  let next = 0;
  const results = inputs.map((input) =>
    input instanceof DomainError ? rejected(input) : resultOf(stored[next++]!, input.w),
  );
  const counts = countsOf(results);
  parts.metrics.eventsAccepted.inc(counts.accepted);
  parts.metrics.eventsRejected.inc(counts.rejected);
  parts.metrics.eventsSkipped.inc(counts.skipped);
  const result = { ...counts, results };
  return {
    result,
    settle: async (later) => {
      if (events.length <= WAIT_MAX_EVENTS) await settle(later, events, results);
      return result;
    },
  };
};

const rejected = ({ message }: DomainError): EventResult => ({
  eventId: null,
  status: "REJECTED",
  skipped: false,
  message,
});

const resultOf = (stored: Ingested, warnings: NewEvent["w"]): EventResult => {
  if (stored.kind === "stored") {
    return {
      eventId: stored.eventId,
      status: "PENDING",
      skipped: false,
      message: "Event queued for processing",
      ...(warnings ? { warnings: [...warnings] } : {}),
    };
  }
  const { existingEventId, isSameBody, isReverted } = stored;
  const message = [
    "An event with this idempotencyKey was accepted before",
    ...(isSameBody ? [] : [" with a different body; the first one stands"]),
    ...(isReverted ? ["; it was reverted since: to count it again, send it with another key"] : []),
  ].join("");
  return { eventId: existingEventId, status: "DUPLICATE", skipped: true, message, existingEventId };
};

const countsOf = (results: readonly EventResult[]): Omit<BatchResult, "results"> => {
  const skipped = results.filter((result) => result.status === "DUPLICATE").length;
  const refused = results.filter((result) => result.status === "REJECTED").length;
  return { accepted: results.length - skipped - refused, rejected: refused, skipped };
};
