import { sql } from "kysely";
import { idFloor } from "../kernel/ids.ts";
import type { Work } from "../kernel/work.ts";

const WEEK_MS = 7 * 86_400_000;
/** Weeks ahead for which partitions of tracked events exist; the job that creates them runs every hour. */
const WEEKS_AHEAD = 4;
/** Advisory lock that keeps two starting processes from creating the same partition. */
const LOCK = 7_741;

/**
 * Creates the weekly partitions of tracked events from this week on. Event ids are time-ordered, so a week is
 * a range of ids.
 */
export const ensurePartitions = async ({ db, now }: Work): Promise<void> => {
  await sql`select pg_advisory_xact_lock(${LOCK}::bigint)`.execute(db);
  const first = Math.floor(now.getTime() / WEEK_MS) * WEEK_MS;
  for (let week = 0; week <= WEEKS_AHEAD; week++) {
    const start = first + week * WEEK_MS;
    const name = `tracked_events_${new Date(start).toISOString().slice(0, 10).replaceAll("-", "")}`;
    const [from, to] = [idFloor(start), idFloor(start + WEEK_MS)];
    await sql`create table if not exists ${sql.ref(name)} partition of tracked_events
      for values from (${sql.lit(from)}) to (${sql.lit(to)})`.execute(db);
  }
};
