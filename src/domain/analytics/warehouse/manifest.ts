import { type RawBuilder, sql } from "kysely";
import type { Work } from "../../kernel/work.ts";

/**
 * How long retention waits for files for a warehouse that do not come on, in ms: whoever switches the
 * warehouse off, or leaves it broken for so long, gets files without the effects that are deleted meanwhile.
 */
const WAREHOUSE_WAIT_MS = 7 * 86_400_000;

/**
 * A condition: events of a project before an id are to be in files, with their effects. `w.project_id` as the
 * project means any. It stands in statements with tables of their own: `w`, `of_w` and `e` are its names.
 */
export const waitsForWarehouse = (
  serverNow: Date,
  projectId: RawBuilder<unknown>,
  beforeId: RawBuilder<unknown>,
): RawBuilder<boolean> => sql`exists (
  select from warehouse_projects w join projects of_w on of_w.id = w.project_id and of_w.deleted_at is null
  where w.project_id = ${projectId}
    and w.moved_at > ${new Date(serverNow.getTime() - WAREHOUSE_WAIT_MS).toISOString()}::timestamptz
    and exists (select from tracked_events e
      where e.project_id = w.project_id and e.id > w.cursor and e.id < ${beforeId}))`;

const PROJECTS_AT_ONCE = 100;

type StoppedRow = { id: string };

/** Deletes rows of some projects from a table, by project and number. @returns how many */
const deleteSome = async (
  { db }: Work,
  table: "warehouse_changes" | "warehouse_parts",
  { projectIds, limit }: { projectIds: string; limit: number },
): Promise<number> => {
  const { rows } = await sql`
    with old as materialized (
      select o.project_id, o.seq from unnest(${projectIds}::uuid[]) as x(id) cross join lateral (
        select project_id, seq from ${sql.table(table)} where project_id = x.id order by seq limit ${limit}) o
      limit ${limit})
    delete from ${sql.table(table)} t using old
    where t.project_id = old.project_id and t.seq = old.seq returning 1`.execute(db);
  return rows.length;
};

/**
 * Forgets up to `limit` rows of projects whose files for a warehouse nobody has tried to write for as long as
 * retention would wait: the warehouse was switched off, and nothing else would read what changes. Each is
 * marked first: from then on no change is noted, nobody goes on with what is left of it, and it is forgotten
 * to its end. At last the project is forgotten too.
 * @param isOff whether there is no warehouse now; else only what was begun is ended
 * @returns whether there may be more
 */
export const forgetStopped = async (
  work: Work,
  { limit, isOff }: { limit: number; isOff: boolean },
): Promise<boolean> => {
  const { db, serverNow } = work;
  const since = sql`${new Date(serverNow.getTime() - WAREHOUSE_WAIT_MS).toISOString()}::timestamptz`;
  const { rows } = await sql<StoppedRow>`
    select w.project_id::text as id from warehouse_projects w
    where w.is_forgotten or ${isOff}::boolean and greatest(w.moved_at, w.retry_at, w.leased_until) <= ${since}
    order by w.project_id limit ${sql.lit(PROJECTS_AT_ONCE)} for update skip locked`.execute(db);
  if (rows.length === 0) return false;
  const projectIds = `{${rows.map(({ id }) => id).join(",")}}`;
  await sql`
    update warehouse_projects set is_forgotten = true
    where project_id = any(${projectIds}::uuid[]) and not is_forgotten`.execute(db);
  const changes = await deleteSome(work, "warehouse_changes", { projectIds, limit });
  const parts = await deleteSome(work, "warehouse_parts", { projectIds, limit });
  if (changes + parts === 0)
    await sql`
      delete from warehouse_projects where project_id = any(${projectIds}::uuid[])`.execute(db);
  return true;
};

/** The version of the format of files; it rises with each change that a loader has to know. */
const SCHEMA_VERSION = 1;
const ENTRIES_AT_ONCE = 100;
const SEQUENCE_DIGITS = 12;

/** A file as the manifest tells of it, in this order. */
type Row = {
  sequence: number;
  kind: string;
  path: string;
  rows: number;
  bytes: number;
  sha256: string;
  fromId: string;
  toId: string;
  createdAt: Date;
  replaces: string | null;
};

/** A file of the manifest. */
type Entry = { seq: number; path: string; body: Buffer };

const pathOf = (projectId: string, seq: number): string =>
  `manifest/project_id=${projectId}/${String(seq).padStart(SEQUENCE_DIGITS, "0")}.json`;

/** The path of the first entry of a project. */
export const firstEntryOf = (projectId: string): string => pathOf(projectId, 1);

const show = (projectId: string, row: Row): Entry => {
  const { sequence: seq, ...rest } = row;
  const entry = { schemaVersion: SCHEMA_VERSION, projectId, sequence: seq, ...rest };
  return { seq, path: pathOf(projectId, seq), body: Buffer.from(`${JSON.stringify(entry)}\n`) };
};

/** Reads a page of entries of the manifest after one; they never change. */
export const readEntries = async ({ db }: Work, projectId: string, after: number): Promise<Entry[]> => {
  const { rows } = await sql<Row>`
    select w.seq as sequence, w.kind, w.path, w.row_count as rows, w.byte_count as bytes, w.sha256,
      w.from_id::text as "fromId", w.to_id::text as "toId", w.created_at as "createdAt", r.path as replaces
    from warehouse_parts w
    left join warehouse_parts r on r.project_id = w.project_id and r.seq = w.replaces
    where w.project_id = ${projectId}::uuid and w.seq > ${after}::bigint
    order by w.seq limit ${sql.lit(ENTRIES_AT_ONCE)}`.execute(db);
  return rows.map((row) => show(projectId, row));
};
