import { sql } from "kysely";
import { idFloor } from "../kernel/ids.ts";
import { limitsOf, type Plan, type PlanLimits } from "../kernel/plans.ts";
import { DEFAULT_SETTINGS } from "../evaluation/project-settings.ts";
import type { Work } from "../kernel/work.ts";
import { partitionsOf } from "./partitions.ts";

const DAY_MS = 86_400_000;
/** How long dropping a partition waits for its table, in ms: other users of the table queue behind it. */
const TABLE_WAIT_MS = 800;

/** A partitioned table of which each project keeps some days. */
type Retained = {
  table: string;
  /** The setting of a project, and the limit of its plan. */
  days: "activityDays" | "executionsDays";
  /** Columns that identify a row of a project. */
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

type Days = Retained["days"];
type Row = { ids: string[]; days: string | null; plan: Plan; planOverrides: Partial<PlanLimits> };

/**
 * Returns what is no longer kept of a table: partitions of which no project keeps anything, and projects with
 * older rows in the others. Deleted projects keep nothing for longer.
 */
export const findExpired = async (
  work: Work,
  { table, days }: Retained,
): Promise<{ partitions: string[]; rows: Expired[] }> => {
  const kept = await readKept(work, days);
  const longest = Math.max(...kept.map((one) => one.days), 0) || DEFAULT_SETTINGS[days];
  const nowMs = work.now.getTime();
  const partitions = await partitionsOf(work.db, table);
  const isOver = (toMs: number | null): boolean => toMs !== null && toMs <= nowMs - longest * DAY_MS;
  const [oldest] = partitions.filter(({ toMs }) => !isOver(toMs));
  const rows = kept
    .filter((one) => one.days < longest && (oldest?.fromMs ?? -Infinity) < nowMs - one.days * DAY_MS)
    .flatMap(({ ids, days: ofProject }) =>
      ids.map((projectId) => ({ projectId, beforeId: idFloor(nowMs - ofProject * DAY_MS) })),
    );
  return { partitions: partitions.filter(({ toMs }) => isOver(toMs)).map(({ name }) => name), rows };
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
 * Drops a partition, unless lines of it wait for the relay. Waits for the table only briefly.
 * @returns whether it was dropped
 */
export const dropPartition = async (
  { db }: Work,
  { table, isRelayed }: Retained,
  name: string,
): Promise<boolean> => {
  await sql`set local lock_timeout = ${sql.lit(TABLE_WAIT_MS)}`.execute(db);
  await sql`lock table only ${sql.ref(table)} in access exclusive mode`.execute(db);
  const toMs = (await partitionsOf(db, table)).find((one) => one.name === name)?.toMs;
  if (toMs === undefined || toMs === null) return false;
  if (isRelayed && (await isAwaited(db, idFloor(toMs)))) return false;
  await sql`drop table ${sql.ref(name)}`.execute(db);
  return true;
};

/** Whether the relay has yet to publish rows before an id, of all projects or of one. */
const isAwaited = async (db: Work["db"], beforeId: string, projectId?: string): Promise<boolean> => {
  const those = projectId === undefined ? sql`true` : sql`project_id = ${projectId}::uuid`;
  const { rows } = await sql`
    select from outbox_q where outbox_ids[1] < ${beforeId}::uuid and ${those} limit 1`.execute(db);
  return rows.length > 0;
};

/** Deletes up to `limit` rows of a project that are no longer kept. @returns the number of deleted rows */
export const deleteExpired = async (
  { db }: Work,
  { table, key, isRelayed }: Retained,
  { projectId, beforeId, limit }: Expired & { limit: number },
): Promise<number> => {
  if (isRelayed && (await isAwaited(db, beforeId, projectId))) return 0;
  const columns = sql.raw(key.join(", "));
  const { rows } = await sql`
    delete from ${sql.ref(table)} t using (
      select ${columns} from ${sql.ref(table)}
      where project_id = ${projectId}::uuid and id < ${beforeId}::uuid limit ${limit}) old
    where t.project_id = ${projectId}::uuid
      and ${sql.raw(key.map((column) => `t.${column} = old.${column}`).join(" and "))}
    returning 1`.execute(db);
  return rows.length;
};
