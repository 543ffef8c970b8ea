import { sql } from "kysely";
import { outageOf } from "../kernel/outages.ts";
import { BATCH, chosenTimeouts } from "../kernel/timeouts.ts";
import type { Transact, Work } from "../kernel/work.ts";
import { SLOW_EVENT_MS } from "./claim-shares.ts";
import type { ClaimBudget } from "./claim-budget.ts";
import { countTry } from "./fail-event.ts";
import { holdPartition, type QueuedEvent } from "./queue.ts";

/** Error of an attempt that blocked the process for so long that its transaction was lost. */
class EvaluationTooLong extends Error {
  constructor(ms: number) {
    super(`evaluation took ${Math.round(ms)} ms without a pause, and its transaction was lost meanwhile`);
  }
}

type FailedClaim = {
  error: unknown;
  steps: ClaimBudget;
  onError: (error: unknown, event: QueuedEvent) => void;
};

/**
 * Counts a failed attempt for the slowest event of a claim that an outage rolled back, if that event blocked
 * this process for half as long as a transaction may be idle: PostgreSQL ends such transactions and drops
 * unresponsive clients, so the event itself caused the outage. Runs in its own transaction.
 * @returns the event that was blamed; undefined when there is none: then `error` is a genuine outage
 */
export const blameSlowest = async (
  transact: Transact,
  { error, steps: { slowest }, onError }: FailedClaim,
): Promise<QueuedEvent | undefined> => {
  if (outageOf(error) === undefined || slowest === undefined) return undefined;
  const { idleMs } = chosenTimeouts() ?? BATCH;
  if (slowest.ms < Math.min(SLOW_EVENT_MS, idleMs / 2)) return undefined;
  const { event, ms } = slowest;
  try {
    await transact(async (work) => {
      await holdPartition(work, event.part);
      if (await isWaiting(work, event))
        await countTry(work, { event, error: new EvaluationTooLong(ms), onError });
    });
    return event;
  } catch (again) {
    if (outageOf(again) === undefined) throw again;
    return undefined;
  }
};

/** Returns whether the event is still queued, with no attempt counted since it was claimed. */
const isWaiting = async ({ db }: Work, event: QueuedEvent): Promise<boolean> => {
  const { rows } = await sql`
    select 1 from event_q where project_id = ${event.projectId} and part = ${event.part}
      and seq = ${event.seq} and attempts = ${event.attempts}`.execute(db);
  return rows.length > 0;
};
