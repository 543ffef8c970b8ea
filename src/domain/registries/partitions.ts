import { sql } from "kysely";
import { LOCKS, type Work } from "../kernel/work.ts";
import { idFloor, timeOfId } from "../kernel/ids.ts";
import type { Db } from "../kernel/db.ts";

const WEEK_MS = 7 * 86_400_000;
/** Weeks ahead for which partitions exist; the job that creates them runs every hour. */
const WEEKS_AHEAD = 4;

/**
 * Tables partitioned by week. Ids are time-ordered, so a week is a range of ids. A unique index that does not
 * contain the id exists only in each partition.
 */
const PARTITIONED: readonly { table: string; uniqueIndex?: { suffix: string; on: string } }[] = [
  { table: "tracked_events" },
  {
    table: "outbox",
    uniqueIndex: {
      suffix: "player_key",
      on: "(project_id, player_id, player_seq) where player_seq is not null",
    },
  },
  { table: "rule_executions" },
];

/** A partition with the range of its ids in ms; null where it has no bound. The default one has none. */
export type Partition = { name: string; fromMs: number | null; toMs: number | null };

/** Returns the partitions of a table, oldest first, without the default one. */
export const partitionsOf = async (db: Db, table: string): Promise<Partition[]> => {
  const { rows } = await sql<{ name: string; bound: string }>`
    select c.relname as name, pg_get_expr(c.relpartbound, c.oid) as bound
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = to_regclass(${table}) and pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'`.execute(
    db,
  );
  return rows
    .map(({ name, bound }) => ({ name, fromMs: boundOf(bound, "FROM"), toMs: boundOf(bound, "TO") }))
    .toSorted((a, b) => (a.fromMs ?? -Infinity) - (b.fromMs ?? -Infinity));
};

const boundOf = (text: string, side: "FROM" | "TO"): number | null => {
  const id = new RegExp(`${side} \\('([0-9a-f-]{36})'\\)`).exec(text)?.[1];
  return id === undefined ? null : timeOfId(id);
};

/**
 * Creates the weekly partitions of each table from this week on, except those that exist and those of which
 * the default partition has rows already: it keeps such weeks, since a partition cannot be made over them.
 */
export const ensurePartitions = async ({ db, now }: Work): Promise<void> => {
  await sql`select pg_advisory_xact_lock(${LOCKS.PARTITIONS}::bigint)`.execute(db);
  const first = Math.floor(now.getTime() / WEEK_MS) * WEEK_MS;
  for (const { table, uniqueIndex } of PARTITIONED) {
    const existing = await partitionsOf(db, table);
    for (let week = 0; week <= WEEKS_AHEAD; week++) {
      const start = first + week * WEEK_MS;
      if (existing.some((one) => overlaps(one, start))) continue;
      const name = `${table}_${new Date(start).toISOString().slice(0, 10).replaceAll("-", "")}`;
      const [from, to] = [idFloor(start), idFloor(start + WEEK_MS)];
      if (await hasRows(db, `${table}_default`, { from, to })) continue;
      await sql`create table if not exists ${sql.ref(name)} partition of ${sql.ref(table)}
        for values from (${sql.lit(from)}) to (${sql.lit(to)})`.execute(db);
      if (uniqueIndex)
        await sql`create unique index if not exists ${sql.ref(`${name}_${uniqueIndex.suffix}`)}
          on ${sql.ref(name)} ${sql.raw(uniqueIndex.on)}`.execute(db);
    }
  }
};

const hasRows = async (
  db: Db,
  table: string,
  { from, to }: { from: string; to: string },
): Promise<boolean> => {
  const { rows } = await sql`
    select from ${sql.ref(table)} where id >= ${from}::uuid and id < ${to}::uuid limit 1`.execute(db);
  return rows.length > 0;
};

const overlaps = ({ fromMs, toMs }: Partition, startMs: number): boolean =>
  (fromMs ?? -Infinity) < startMs + WEEK_MS && (toMs ?? Infinity) > startMs;
