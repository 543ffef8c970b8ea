import { sql } from "kysely";
import { timeOfId } from "../kernel/ids.ts";
import type { Work } from "../kernel/work.ts";

/** Rows of a queue are counted up to this number: a count reads every row. */
const COUNTED_MAX = 100_000;

/** What waits in the queues of the database, of all projects. */
export type Queues = {
  /**
   * Rows, up to 100,000: events for the rules, events that wait for another try or their time, commits for
   * the relay.
   */
  lengths: { events: number; events_due: number; commits: number };
  /** Time since the oldest counted event was taken in, in seconds; 0 when none waits. */
  age: number;
  /** Projects whose rollups of analytics are halted. */
  rollupsHalted: number;
};

/** Reads the lengths of the queues, and the age of the oldest event in them. */
export const readQueues = async ({ db, now }: Work): Promise<Queues> => {
  type Row = Queues["lengths"] & { oldest: string | null; rollups_halted: number };
  const max = sql.lit(COUNTED_MAX);
  const { rows } = await sql<Row>`
    with waiting as materialized (select event_id from event_q limit ${max})
    select (select count(*) from waiting) as events,
      (select event_id from waiting order by event_id limit 1) as oldest,
      (select count(*) from (select from event_due limit ${max}) d) as events_due,
      (select count(*) from (select from outbox_q limit ${max}) o) as commits,
      (select count(*) from analytics_rollups where halted_at is not null) as rollups_halted`.execute(db);
  const { oldest, rollups_halted: rollupsHalted, ...lengths } = rows[0]!;
  const age = oldest === null ? 0 : Math.max(0, (now.getTime() - timeOfId(oldest)) / 1_000);
  return { lengths, age, rollupsHalted };
};
