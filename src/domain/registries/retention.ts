import { type RawBuilder, sql } from "kysely";
import { idFloor, timeOfId } from "../kernel/ids.ts";
import { limitsOf, type Plan, type PlanLimits } from "../kernel/caller.ts";
import { DEFAULT_SETTINGS } from "../evaluation/project-settings.ts";
import { LOCKS, type Work } from "../kernel/work.ts";
import { waitsForWarehouse } from "../analytics/warehouse/manifest.ts";
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

const DAY_MS = 86_400_000;
/** How long dropping a partition waits for its table, in ms: other users of the table queue behind it. */
const TABLE_WAIT_MS = 800;

/** A partitioned table of which each project keeps some days. */
type Retained = {
  table: string;
  /** The setting of a project, and the limit of its plan. */
  days: "activityDays" | "executionsDays";
  /** Columns that identify a row of a project, in the order of the primary key. */
  key: readonly string[];
  /** Whether rows wait for the relay, which needs them. */
  isRelayed: boolean;
};

export const RETAINED: readonly Retained[] = [
  { table: "outbox", days: "activityDays", key: ["id"], isRelayed: true },
  { table: "rule_executions", days: "executionsDays", key: ["rule_id", "id"], isRelayed: false },
];

/** Rows of a project that are no longer kept: those before the id. */
export type Expired = { projectId: string; beforeId: string };

/** Where a page of a partition begins: after the row with this key. */
export type AfterRow = readonly string[];

type Days = Retained["days"];
type Row = { ids: string[]; days: string | null; plan: Plan; planOverrides: Partial<PlanLimits> };

/**
 * Returns what is no longer kept of a table: partitions of which no project keeps anything, projects with
 * older rows in the others, and the id before which no project keeps a row of the default partition, if that
 * has any. Deleted projects keep nothing for longer.
 */
export const findExpired = async (
  work: Work,
  { table, days }: Retained,
): Promise<{ partitions: string[]; rows: Expired[]; beforeId?: string }> => {
  const kept = await readKept(work, days);
  const longest = Math.max(...kept.map((one) => one.days), 0) || DEFAULT_SETTINGS[days];
  const nowMs = work.now.getTime();
  const partitions = await partitionsOf(work.db, table);
  const isOver = (toMs: number | null): boolean => toMs !== null && toMs <= nowMs - longest * DAY_MS;
  const [oldest] = partitions.filter(({ toMs }) => !isOver(toMs));
  const { rows: strays } = await sql`select from ${sql.ref(defaultOf(table))} limit 1`.execute(work.db);
  const hasStrays = strays.length > 0;
  const oldestMs = hasStrays ? -Infinity : (oldest?.fromMs ?? -Infinity);
  const rows = kept
    .filter((one) => one.days < longest && oldestMs < nowMs - one.days * DAY_MS)
    .flatMap(({ ids, days: ofProject }) =>
      ids.map((projectId) => ({ projectId, beforeId: idFloor(nowMs - ofProject * DAY_MS) })),
    );
  return {
    partitions: partitions.filter(({ toMs }) => isOver(toMs)).map(({ name }) => name),
    rows,
    ...(hasStrays ? { beforeId: idFloor(nowMs - longest * DAY_MS) } : {}),
  };
};

/** Returns all projects, or one, by the number of days that they keep. */
const readKept = async (
  { db }: Work,
  days: Days,
  projectId?: string,
): Promise<{ ids: string[]; days: number }[]> => {
  const those =
    projectId === undefined
      ? sql`p.deleted_at is null and t.deleted_at is null`
      : sql`p.id = ${projectId}::uuid`;
  const { rows } = await sql<Row>`
    select json_agg(p.id) as ids, p.settings->>${sql.lit(days)} as days, t.plan,
      t.plan_overrides as "planOverrides"
    from projects p join tenants t on t.id = p.tenant_id
    where ${those}
    group by 2, 3, 4`.execute(db);
  return rows.map(({ ids, days: set, ...tenant }) => {
    const wanted = set === null ? DEFAULT_SETTINGS[days] : Number(set);
    return { ids, days: Math.max(1, Math.min(wanted, limitsOf(tenant)[days] ?? Infinity)) };
  });
};

/** Returns since when a project's rows are certain to be kept. */
export const keptSince = async (work: Work, days: Days, projectId: string): Promise<Date> => {
  const [kept] = await readKept(work, days, projectId);
  return new Date(work.now.getTime() - (kept?.days ?? DEFAULT_SETTINGS[days]) * DAY_MS);
};

/**
 * Drops a partition, unless lines of it wait for the relay or for files for a warehouse. Waits for the table
 * only briefly.
 * @returns whether it was dropped
 */
export const dropPartition = async (
  work: Work,
  { table, isRelayed }: Retained,
  name: string,
): Promise<boolean> => {
  const { db } = work;
  await sql`set local lock_timeout = ${sql.lit(TABLE_WAIT_MS)}`.execute(db);
  await sql`lock table only ${sql.ref(table)} in access exclusive mode`.execute(db);
  const toMs = (await partitionsOf(db, table)).find((one) => one.name === name)?.toMs;
  if (toMs === undefined || toMs === null) return false;
  if (isRelayed && (await isAwaited(work, idFloor(toMs)))) return false;
  await sql`drop table ${sql.ref(name)}`.execute(db);
  return true;
};

/** Whether the relay has yet to publish rows before an id, or files for a warehouse are to have them. */
const isAwaited = async ({ db, serverNow }: Work, beforeId: string): Promise<boolean> => {
  const waits = waitsForWarehouse(serverNow, sql`w.project_id`, sql`${beforeId}::uuid`);
  const { rows } = await sql<{ is: boolean }>`
    select exists (select from outbox_q where outbox_ids[1] < ${beforeId}::uuid) or ${waits} as is`.execute(
    db,
  );
  return rows[0]!.is;
};

type Before = { projectId: RawBuilder<unknown>; beforeId: RawBuilder<unknown> };

/** Whether neither the relay nor files for a warehouse need rows of a project before an id. */
const isFree = ({ serverNow }: Work, { isRelayed }: Retained, { projectId, beforeId }: Before) =>
  isRelayed
    ? sql`not exists (
        select from outbox_q q where q.project_id = ${projectId} and q.outbox_ids[1] < ${beforeId})
      and not ${waitsForWarehouse(serverNow, projectId, beforeId)}`
    : sql`true`;

/**
 * Deletes up to `limit` rows of projects that are no longer kept, the same number of each at most. Projects
 * with lines that wait for the relay are left out, and rows that another process deletes.
 * @returns the projects of which there may be more
 */
export const deleteExpired = async (
  work: Work,
  retained: Retained,
  { expired, limit }: { expired: readonly Expired[]; limit: number },
): Promise<Expired[]> => {
  const { table, key } = retained;
  const each = Math.max(1, Math.floor(limit / expired.length));
  const given = expired.map(({ projectId, beforeId }) => ({ p: projectId, b: beforeId }));
  const { rows } = await sql<{ project_id: string }>`
    with old as materialized (
      select o.* from json_to_recordset(${JSON.stringify(given)}::json) as x(p uuid, b uuid)
      cross join lateral (
        select project_id, ${columnsOf(key)} from ${sql.ref(table)}
        where project_id = x.p and id < x.b limit ${each} for update skip locked) o
      where ${isFree(work, retained, { projectId: sql`x.p`, beforeId: sql`x.b` })}),
    gone as (
      delete from ${sql.ref(table)} t using old
      where t.project_id = old.project_id and ${isSame(key)})
    select project_id from old group by project_id having count(*) = ${each}`.execute(work.db);
  const more = new Set(rows.map((row) => row.project_id));
  return expired.filter(({ projectId }) => more.has(projectId));
};

/**
 * Deletes rows before an id from a page of the default partition, which is never dropped: it has the weeks
 * that began while no worker ran. Lines that wait for the relay stay for the next time.
 * @returns where the next page begins; undefined after the last one
 */
export const deleteStrays = async (
  work: Work,
  retained: Retained,
  { beforeId, after, limit }: { beforeId: string; after: AfterRow; limit: number },
): Promise<AfterRow | undefined> => {
  const all = ["project_id", ...retained.key];
  const columns = columnsOf(all);
  const [strays, before] = [sql.ref(defaultOf(retained.table)), sql`${beforeId}::uuid`];
  const values = sql.join(after.map((value) => sql`${value}::uuid`));
  const isLater = after.length === 0 ? sql`true` : sql`(${columns}) > (${values})`;
  const { rows } = await sql<Record<string, string>>`
    with page as materialized (
      select ${columns} from ${strays} where ${isLater} order by ${columns} limit ${limit}),
    old as materialized (
      select ${columns} from ${strays}
      where (${columns}) in (select ${columns} from page p where p.id < ${before}
        and ${isFree(work, retained, { projectId: sql`p.project_id`, beforeId: before })})
      for update skip locked),
    gone as (
      delete from ${strays} t using old where t.project_id = old.project_id and ${isSame(retained.key)})
    select ${columns} from page order by ${columns}`.execute(work.db);
  const last = rows.at(-1);
  return last && rows.length === limit ? all.map((column) => last[column]!) : undefined;
};

const defaultOf = (table: string): string => `${table}_default`;
const columnsOf = (key: readonly string[]) => sql.raw(key.join(", "));
const isSame = (key: readonly string[]) =>
  sql.raw(key.map((column) => `t.${column} = old.${column}`).join(" and "));
