import { type RawBuilder, sql } from "kysely";
import { insertWarehouseChangesOf } from "../kernel/events/warehouse-changes.ts";
import { PARTITIONS } from "../kernel/ids.ts";
import { type Read, statementOf } from "../kernel/read.ts";
import type { Work } from "../kernel/work.ts";

/** Maximum events requeued in one sweep. */
const SWEEP_MAX = 1_000;

/** Files for a warehouse have said of events that they wait, for as long as they did. */
const TOLD = insertWarehouseChangesOf("CHANGED", sql`select project_id, event_id as ref from due`);

/** Requeues events whose delay is over, across all projects. */
export const requeueDueEvents = async ({ db, now }: Work): Promise<void> => {
  await sql`
    with due as (
      delete from event_due t using (
        select project_id, event_id from event_due where due_at <= ${now.toISOString()}::timestamptz
        order by due_at limit ${SWEEP_MAX} for update skip locked) x
      where t.project_id = x.project_id and t.event_id = x.event_id
      returning t.project_id, t.event_id, t.part, t.attempts, t.together),
    told as (${TOLD})
    insert into event_q (project_id, part, event_id, attempts, together)
    select project_id, part, event_id, attempts, together from due`.execute(db);
};

/** Selects the times to which rules have delayed events of a project; retries are due by the server's. */
export const delayedTimesOf = (projectId: string): RawBuilder<unknown> =>
  sql`select due_at from event_due where project_id = ${projectId}::uuid and attempts = 0`;

/** Requeues the events of a project that rules have delayed until now. @returns how many */
export const requeueDelayed = async (work: Work, projectId: string): Promise<number> => {
  const { rows } = await sql<{ part: number }>`
    with due as (
      delete from event_due t using (
        select event_id from event_due
        where project_id = ${projectId}::uuid and attempts = 0
          and due_at <= ${work.now.toISOString()}::timestamptz
        order by due_at limit ${SWEEP_MAX} for update skip locked) x
      where t.project_id = ${projectId}::uuid and t.event_id = x.event_id
      returning t.project_id, t.event_id, t.part, t.attempts, t.due_at),
    told as (${TOLD})
    insert into event_q (project_id, part, event_id, attempts)
    select project_id, part, event_id, attempts from due order by due_at, event_id
    returning part`.execute(work.db);
  work.wakeEvents(rows.map(({ part }) => part));
  return rows.length;
};

/** Whether events of a project wait to be processed. */
export const areEventsWaiting = async ({ db }: Work, projectId: string): Promise<boolean> => {
  const { rows } = await sql`
    select from event_q where project_id = ${projectId}::uuid limit 1`.execute(db);
  return rows.length > 0;
};

/** `events`, `outbox`: partitions with waiting rows; `conditions`: in the order in which they were asked. */
export type WaitingWork = {
  events: number[];
  outbox: number[];
  areEventsDue: boolean;
  conditions: boolean[];
};

/**
 * Looks across all projects for waiting tracked events and outbox rows, for events whose delay is over, and
 * whether `conditions` hold, in one statement: it runs every second in every worker, and nearly always finds
 * nothing.
 */
export const lookForWork = async (
  read: Read,
  now: Date,
  conditions: readonly RawBuilder<unknown>[],
): Promise<WaitingWork> => {
  const partsOf = (table: string): RawBuilder<unknown> => sql`array(
    select part from generate_series(0, ${sql.lit(PARTITIONS - 1)}) as p(part)
    where exists (select from ${sql.ref(table)} q where q.part = p.part))`;
  const isDue = sql`exists (select from event_due where due_at <= ${now.toISOString()}::timestamptz)`;
  const statement = sql`select json_build_object(
      'events', ${partsOf("event_q")}, 'outbox', ${partsOf("outbox_q")}, 'areEventsDue', ${isDue},
      'conditions', json_build_array(${sql.join(conditions)})) as found`;
  const [row] = await read<{ found: WaitingWork }>(statementOf(statement));
  return row!.found;
};
