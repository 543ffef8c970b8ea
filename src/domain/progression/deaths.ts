import { sql } from "kysely";
import { outageOf, throwOutage } from "../kernel/outages.ts";
import type { Transact, Work } from "../kernel/work.ts";
import { countTry, eventOf, holdPartition, type QueuedEvent, type QueueRow } from "./queue.ts";
import type { InHand, Noted, OthersHand, SoleEvent } from "./in-hand.ts";

/** Error of an attempt that ended the process in which the event was evaluated alone. */
class ProcessDied extends Error {
  constructor() {
    super("PROCESS_DIED: the process that evaluated this event, and nothing else, ended meanwhile");
  }
}

/** `onLost`: called with notes that cannot be settled, and are forgotten. */
type Settling = {
  transact: Transact;
  onError: (error: unknown, event: QueuedEvent) => void;
  onLost: (error: unknown, noted: Noted) => void;
};

/**
 * Counts a failed attempt for each event that a dead process had alone in hand, and forgets the dead whose
 * events no longer wait. May run in several processes at once.
 * @throws when the database is away; what it is too busy for is left for the next time
 */
export const settleDeaths = async (hand: InHand, settling: Settling): Promise<void> => {
  const done: OthersHand[] = [];
  for (const one of hand.dead) if (!(await isOpen(one, settling))) done.push(one);
  await hand.forget(done);
};

/** Counts what a note says. @returns whether it is still needed */
const isOpen = async ({ noted }: OthersHand, { transact, onError, onLost }: Settling): Promise<boolean> => {
  try {
    return await transact(async (work) => {
      if (noted.alone) await countDeath(work, noted.alone, onError);
      return isWaiting(work, noted);
    });
  } catch (error) {
    if (outageOf(error) === "busy") return true;
    throwOutage(error);
    onLost(error, noted);
    return false;
  }
};

/** Counts the attempt, unless it is counted or the event was processed. */
const countDeath = async (
  work: Work,
  { part, projectId, eventId, attempts }: SoleEvent,
  onError: Settling["onError"],
): Promise<void> => {
  const read = () =>
    sql<QueueRow>`
    select q.part, q.seq, q.project_id, q.event_id, q.attempts, e.external_user_id, e.event_type,
      e.properties, e.occurred_at
    from event_q q join tracked_events e on e.project_id = q.project_id and e.id = q.event_id
    where q.project_id = ${projectId} and q.event_id = ${eventId} and q.part = ${part}
      and q.attempts = ${attempts}`.execute(work.db);
  if ((await read()).rows.length === 0) return;
  await holdPartition(work, part);
  for (const row of (await read()).rows)
    await countTry(work, { event: eventOf(row), error: new ProcessDied(), onError });
};

const isWaiting = async ({ db }: Work, { stretches, alone }: Noted): Promise<boolean> => {
  const isAlone = sql`project_id = ${alone?.projectId ?? null} and event_id = ${alone?.eventId ?? null}`;
  const { rows } = await sql<{ is_waiting: boolean }>`
    select exists (
      select from json_to_recordset(${JSON.stringify(stretches)}::json)
        as x(part smallint, "projectId" uuid, first bigint, last bigint)
      join event_q q on q.part = x.part and q.project_id = x."projectId"
        and q.seq between x.first and x.last)
    or exists (select from event_q where ${isAlone})
    or exists (select from event_due where ${isAlone}) as is_waiting`.execute(db);
  return rows[0]!.is_waiting;
};
