import { failedTrace } from "../rules/insight/traces.ts";
import { outboxRow, type Work } from "../work.ts";
import { noEffects } from "./evaluate.ts";
import type { QueuedEvent } from "./queue.ts";
import { saveBatch } from "./save.ts";
import { noSharedCounters } from "./shared-counters.ts";

/** Gives an event up: FAILED for good, and `event.failed` says so. */
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
