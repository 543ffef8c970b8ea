import { failedTrace } from "../evaluation/trace/keep-trace.ts";
import type { Work } from "../kernel/work.ts";
import { outboxRow } from "../kernel/outbox-row.ts";
import { noEffects } from "../evaluation/evaluate.ts";
import { RETRY_DELAYS_MS } from "../kernel/retries.ts";
import { postponeEvent, type QueuedEvent } from "./queue.ts";
import { saveBatch } from "./save.ts";
import { noSharedCounters } from "../evaluation/shared-counters.ts";

/** Marks an event as FAILED for good and publishes `event.failed`. */
export const failEvent = async (work: Work, event: QueuedEvent, error: unknown): Promise<void> => {
  const { projectId, eventId, eventType, externalUserId, part, seq } = event;
  const message = (error instanceof Error ? error.message : String(error)).slice(0, 500);
  const attempts = event.attempts + 1;
  const failed = outboxRow(projectId, "event.failed", {
    eventId,
    eventType,
    externalUserId,
    error: message,
    attempts,
  });
  const batch = {
    players: [],
    effects: {
      ...noEffects(),
      outbox: [failed],
      traces: [failedTrace(event, { error: message, now: work.now })],
    },
    shared: noSharedCounters(),
    verdicts: [{ projectId, eventId, status: "FAILED" as const, error: message, attempts }],
    done: [{ projectId, part, seq }],
  };
  await saveBatch(work, batch);
};

type Failed = { event: QueuedEvent; error: unknown; onError: (error: unknown, event: QueuedEvent) => void };

/** Retries the event later, or fails it after the last attempt. */
export const countTry = async (work: Work, { event, error, onError }: Failed): Promise<void> => {
  onError(error, event);
  if (event.attempts < RETRY_DELAYS_MS.length) await postponeEvent(work, event);
  else await failEvent(work, event, error);
};
