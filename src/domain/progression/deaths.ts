import { sql } from "kysely";
import type { Transact, Work } from "../kernel/work.ts";
import { countTry } from "./fail-event.ts";
import type { Noted, SoleEvent } from "./hand-notes.ts";
import type { InHand, OthersHand } from "./in-hand.ts";
import { eventOf, holdPartition, type QueuedEvent, type QueueRow } from "./queue.ts";

/** Error of an attempt that ended the process in which the event was evaluated alone. */
class ProcessDied extends Error {
  constructor() {
    super("PROCESS_DIED: the process that evaluated this event, and nothing else, ended meanwhile");
  }
}

type Settling = { transact: Transact; onError: (error: unknown, event: QueuedEvent) => void };

/**
 * Counts a failed attempt for each event that a dead process had alone in hand, and forgets the dead whose
 * events no longer wait. May run in several processes at once.
 */
export const settleDeaths = async (hand: InHand, { transact, onError }: Settling): Promise<void> => {
  const { dead } = hand;
  if (dead.length === 0) return;
  for (const { alone } of dead.map(({ noted }) => noted))
    if (alone) await transact((work) => countDeath(work, alone, onError));
  await hand.forget(
    await transact(async (work) => {
      const done: OthersHand[] = [];
      for (const one of dead) if (!(await isWaiting(work, one.noted))) done.push(one);
      return done;
    }),
  );
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
