import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { linesOf, type Part, type PartKind, type Place, PartWriter } from "./part.ts";
import { type Export, keepLease } from "./progress.ts";
import type { Line } from "./records.ts";
import { StoreError } from "./store.ts";

/** A listed file; `owed`: erased events that it may still have, since it could not be read. */
export type StoredPart = { seq: number; kind: PartKind; path: string; hourMs: number; owed: string[] };

const PARTS_AT_ONCE = 20;
/** A file that could not be read or removed is tried again after so long, in ms. */
export const TRIED_AGAIN_MS = 600_000;

type Row = { seq: string | number; kind: PartKind; path: string; owed: string[] | null };

const HOUR = /date=(\d{4}-\d\d-\d\d)\/hour=(\d\d)\//;

/** The hour in which a file lies, in ms. */
const hourMsOf = (path: string): number => {
  const [, date, hour] = HOUR.exec(path)!;
  return Date.parse(`${date}T${hour}:00:00Z`);
};

const COLUMNS = sql`w.seq, w.kind, w.path, w.owed::text[] as owed`;
const idsOf = (ids: readonly string[]) => sql`${`{${ids.join(",")}}`}::uuid[]`;
const at = (ms: number) => sql`${new Date(ms).toISOString()}::timestamptz`;

const shown = ({ seq, kind, path, owed }: Row): StoredPart => ({
  seq: Number(seq),
  kind,
  path,
  hourMs: hourMsOf(path),
  owed: owed ?? [],
});

/** Returns files that may have records of some of the events, behind one and up to another. */
export const findPartsOf = async (
  { db }: Work,
  projectId: string,
  { eventIds, after, upTo }: { eventIds: readonly string[]; after: number; upTo: number },
): Promise<StoredPart[]> => {
  const { rows } = await sql<Row>`
    select ${COLUMNS} from warehouse_parts w
    where w.project_id = ${projectId}::uuid and w.seq > ${after}::bigint and w.seq <= ${upTo}::bigint
      and w.kind in ('events', 'changes')
      and w.removed_by is null and exists (
        select from unnest(${idsOf(eventIds)}) as x(id)
        where x.id between w.from_id and w.to_id)
    order by w.seq limit ${sql.lit(PARTS_AT_ONCE)}`.execute(db);
  return rows.map(shown);
};

/** Returns files to try again that could not be read when they were to be written anew. */
export const findOwing = async ({ db, serverNow }: Work, projectId: string): Promise<StoredPart[]> => {
  const { rows } = await sql<Row>`
    select ${COLUMNS} from warehouse_parts w
    where w.project_id = ${projectId}::uuid and w.owed is not null and w.removed_by is null
      and w.tried_at <= ${at(serverNow.getTime() - TRIED_AGAIN_MS)}
    order by w.tried_at, w.seq limit ${sql.lit(PARTS_AT_ONCE)}`.execute(db);
  return rows.map(shown);
};

/** Notes erased events that a file may still have, since it cannot be read. @throws LeaseLost */
export const owe = async (
  work: Work,
  export_: Export,
  { seq, eventIds }: { seq: number; eventIds: readonly string[] },
): Promise<void> => {
  await keepLease(work, export_);
  await sql`
    update warehouse_parts w set tried_at = ${at(work.serverNow.getTime())}, owed = array(
      select distinct x.id from unnest(coalesce(w.owed, '{}') || ${idsOf(eventIds)}) as x(id)
      where x.id between w.from_id and w.to_id)
    where w.project_id = ${export_.projectId}::uuid and w.seq = ${seq}::bigint`.execute(work.db);
};

/** Notes that a file has nothing of erased events. @throws LeaseLost */
export const settle = async (work: Work, export_: Export, seq: number): Promise<void> => {
  await keepLease(work, export_);
  await sql`
    update warehouse_parts set owed = null, tried_at = null
    where project_id = ${export_.projectId}::uuid and seq = ${seq}::bigint`.execute(work.db);
};

/** Returns files that the manifest has replaced and that are still in the store. */
export const findReplaced = async (
  { db, serverNow }: Work,
  projectId: string,
): Promise<{ seq: number; path: string }[]> => {
  const { rows } = await sql<{ seq: string | number; path: string }>`
    select w.seq, w.path from warehouse_parts w
    join warehouse_projects p on p.project_id = w.project_id
    where w.project_id = ${projectId}::uuid and w.removed_by is not null and w.deleted_at is null
      and w.removed_by <= p.published
      and coalesce(w.tried_at <= ${at(serverNow.getTime() - TRIED_AGAIN_MS)}, true)
    order by w.tried_at nulls first, w.seq limit ${sql.lit(PARTS_AT_ONCE)}`.execute(db);
  return rows.map(({ seq, path }) => ({ seq: Number(seq), path }));
};

/** Notes that a replaced file is gone, or cannot be removed. @throws LeaseLost */
export const noteRemoved = async (
  work: Work,
  export_: Export,
  { seq, isGone }: { seq: number; isGone: boolean },
): Promise<void> => {
  await keepLease(work, export_);
  const now = at(work.serverNow.getTime());
  const set = isGone ? sql`deleted_at = ${now}, tried_at = null` : sql`tried_at = ${now}`;
  await sql`
    update warehouse_parts set ${set}
    where project_id = ${export_.projectId}::uuid and seq = ${seq}::bigint`.execute(work.db);
};

const HEAD = /^\{("version":\d+,)"eventId" : "([0-9a-f-]{36})"/;

/**
 * Makes a file anew with other records of some events; each keeps its version.
 * @returns undefined where the file has no record that is another one
 * @throws StoreError for a file that is not as it was written
 */
export const rewritePart = async (
  { kind, path, hourMs, projectId, lease }: StoredPart & Omit<Place, "atMs">,
  body: Buffer,
  records: ReadonlyMap<string, Line>,
): Promise<Part | undefined> => {
  const writer = new PartWriter();
  let isOther = false;
  try {
    for await (const line of linesOf(body)) {
      const head = HEAD.exec(line);
      if (!head) throw new Error("it has a line that is no record");
      const [, version = "", id = ""] = head;
      const record = records.get(id);
      const text = record ? `{${version}${record.text.slice(1)}` : line;
      isOther ||= text !== line;
      await writer.addRaw(id, text);
    }
  } catch (cause) {
    throw new StoreError(`${path} is not as it was written: ${(cause as Error).message}`, {
      cause,
      isOfFile: true,
    });
  }
  return isOther ? writer.end(kind, { projectId, lease, atMs: hourMs }) : undefined;
};
