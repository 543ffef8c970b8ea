import { sql } from "kysely";
import { outageOf } from "../kernel/outages.ts";
import { BATCH, chosenPatience } from "../kernel/patience.ts";
import type { Transact, Work } from "../kernel/work.ts";
import { SLOW_EVENT_MS } from "./claim-shares.ts";
import type { ClaimBudget } from "./claim-budget.ts";
import { countTry } from "./fail-event.ts";
import { holdPartition, type QueuedEvent } from "./queue.ts";

/** Why an event counts a try whose claim was undone: computing it kept the process from its connections. */
class TookTooLong extends Error {
  constructor(ms: number) {
    super(`evaluation took ${Math.round(ms)} ms without a pause, and its transaction was lost meanwhile`);
  }
}

type Undone = { error: unknown; steps: ClaimBudget; onError: (error: unknown, event: QueuedEvent) => void };

/**
 * Counts a try of the slowest event of a claim that an outage has undone, where that event has kept this
 * process from everything else for half as long as a transaction may stand still: PostgreSQL ends those that
 * do and gives up clients that do not answer, so the outage is of the event's own making. In a transaction of
 * its own.
 * @returns the event that counts a try; undefined when there is none: then `error` tells of a true outage
 */
export const blameSlowest = async (
  transact: Transact,
  { error, steps: { slowest }, onError }: Undone,
): Promise<QueuedEvent | undefined> => {
  if (outageOf(error) === undefined || slowest === undefined) return undefined;
  const { idleMs } = chosenPatience() ?? BATCH;
  if (slowest.ms < Math.min(SLOW_EVENT_MS, idleMs / 2)) return undefined;
  const { event, ms } = slowest;
  try {
    await transact(async (work) => {
      await holdPartition(work, event.part);
      if (await isWaiting(work, event)) await countTry(work, { event, error: new TookTooLong(ms), onError });
    });
    return event;
  } catch (again) {
    if (outageOf(again) === undefined) throw again;
    return undefined;
  }
};

/** Whether nobody has taken the event up, or counted a try of it, since it was claimed. */
const isWaiting = async ({ db }: Work, event: QueuedEvent): Promise<boolean> => {
  const { rows } = await sql`
    select 1 from event_q where project_id = ${event.projectId} and part = ${event.part}
      and seq = ${event.seq} and attempts = ${event.attempts}`.execute(db);
  return rows.length > 0;
};
