import { sql } from "kysely";
import { type Line, linesOf, type Part, type PartKind, PartWriter, type Place, type Stream } from "./part.ts";
import { instant } from "../events.ts";
import { StoreError } from "./store.ts";
import { idFloor, newId, NIL_ID, timeOfId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";

/**
 * How long a worker has a project to itself, in ms. It renews the lease with each statement; in between are
 * at most three requests to the store, of less than a minute each.
 */
const LEASE_MS = 300_000;
/** The pause after a failure and the longest one, in ms. */
const FIRST_RETRY_MS = 5_000;
const LONGEST_RETRY_MS = 600_000;

/** A project whose files this worker writes, and how far they have come. */
export type Export = {
  projectId: string;
  lease: string;
  /** The last id that a file of each stream has. */
  cursors: Readonly<Record<Stream, string>>;
  /** The last file, and the last one that the manifest has. */
  seq: number;
  published: number;
  /** A file that was begun and not finished. */
  writing: string | null;
};

/** Another worker has the project now: whatever this one has written is in no manifest. */
export class LeaseLost extends Error {
  constructor() {
    super("another worker writes the project's files");
    this.name = "LeaseLost";
  }
}

/** Makes projects known that came since. From then on what changes of their events is noted. */
export const registerProjects = async ({ db, serverNow }: Work): Promise<void> => {
  const now = instant(serverNow.getTime());
  await sql`
    insert into warehouse_projects (project_id, cursor, registered_at, moved_at)
    select p.id, ${NIL_ID}::uuid, ${now}, ${now} from projects p
    where p.deleted_at is null
      and not exists (select from warehouse_projects w where w.project_id = p.id)
    on conflict do nothing`.execute(db);
};

type Row = Omit<Export, "seq" | "published" | "cursors"> & {
  events: string;
  ledger: string;
  rewards: string;
  seq: number;
  published: number;
  knows_merges: boolean;
};

/**
 * Takes a project for this worker. Transactions that began before it was known have noted no changes: it
 * waits until they are over.
 * @param lagMs how long a transaction takes at most
 * @returns undefined while another worker has it, or it is not due, or what it has written is forgotten
 */
export const openExport = async (
  work: Work,
  projectId: string,
  lagMs: number,
): Promise<Export | undefined> => {
  const { db, serverNow } = work;
  const [now, lease] = [serverNow.getTime(), newId()];
  const { rows } = await sql<Row>`
    update warehouse_projects set lease = ${lease}::uuid, leased_until = ${instant(now + LEASE_MS)}
    where project_id = ${projectId}::uuid and registered_at <= ${instant(now - lagMs)}
      and not is_forgotten
      and coalesce(leased_until <= ${instant(now)}, true) and coalesce(retry_at <= ${instant(now)}, true)
    returning project_id::text as "projectId", lease::text, cursor::text as events,
      ledger_cursor::text as ledger, rewards_cursor::text as rewards, seq, published, writing,
      knows_merges`.execute(db);
  const [row] = rows;
  if (!row) return undefined;
  if (!row.knows_merges) await noteEarlierMerges(work, projectId);
  const { lease: own, events, ledger, rewards, seq, published, writing } = row;
  const cursors = { events, ledger, rewards };
  return { projectId, lease: own, cursors, seq, published, writing };
};
const noteEarlierMerges = async ({ db }: Work, projectId: string): Promise<void> => {
  await sql`
    insert into warehouse_changes (project_id, kind, ref)
    select project_id, 'MERGED', id from player_merges where project_id = ${projectId}::uuid`.execute(db);
  await sql`
    update warehouse_projects set knows_merges = true where project_id = ${projectId}::uuid`.execute(db);
};

/** Renews the lease and sets columns. @throws LeaseLost */
const change = async (
  { db, serverNow }: Work,
  { projectId, lease }: Export,
  columns: ReturnType<typeof sql>,
): Promise<void> => {
  const { rows } = await sql`
    update warehouse_projects set leased_until = ${instant(serverNow.getTime() + LEASE_MS)}, ${columns}
    where project_id = ${projectId}::uuid and lease = ${lease}::uuid returning 1`.execute(db);
  if (rows.length === 0) throw new LeaseLost();
};

/** Notes a file that is about to be written, so that it is removed if nobody lists it. @throws LeaseLost */
export const beginPart = async (work: Work, export_: Export, path: string | null): Promise<Export> => {
  await change(work, export_, sql`writing = ${path}::text`);
  return { ...export_, writing: path };
};

/** Keeps the project for longer. @throws LeaseLost */
export const keepLease = (work: Work, export_: Export): Promise<void> =>
  change(work, export_, sql`lease = lease`);

export type Finished = {
  part: Part;
  /** Where files of a stream go on. */
  cursors?: Partial<Export["cursors"]>;
  /** Changes that the file tells of. */
  changes?: readonly string[];
  /** The number of a file whose place it takes. */
  replaces?: number;
};

/** Lists a file that is stored, and moves on. @returns the project as it is then @throws LeaseLost */
export const finishPart = async (work: Work, export_: Export, finished: Finished): Promise<Export> => {
  const { db, serverNow } = work;
  const { part, changes = [], replaces } = finished;
  const cursors = { ...export_.cursors, ...finished.cursors };
  const { projectId } = export_;
  const seq = export_.seq + 1;
  const now = instant(serverNow.getTime());
  await change(
    work,
    export_,
    sql`writing = null, seq = ${seq}::bigint, cursor = ${cursors.events}::uuid,
      ledger_cursor = ${cursors.ledger}::uuid, rewards_cursor = ${cursors.rewards}::uuid, moved_at = ${now}`,
  );
  await sql`
    insert into warehouse_parts (project_id, seq, kind, path, row_count, byte_count, sha256, from_id, to_id,
      created_at, replaces)
    values (${projectId}::uuid, ${seq}::bigint, ${part.kind}, ${part.path}, ${part.rows}::int,
      ${part.body.length}::bigint, ${part.sha256}, ${part.fromId}::uuid, ${part.toId}::uuid, ${now},
      ${replaces ?? null}::bigint)`.execute(db);
  if (replaces !== undefined)
    await sql`
      update warehouse_parts set removed_by = ${seq}::bigint, owed = null, tried_at = null
      where project_id = ${projectId}::uuid and seq = ${replaces}::bigint`.execute(db);
  await forgetChanges(work, projectId, changes);
  return { ...export_, seq, cursors, writing: null };
};

/** Whether a file is listed: then it is to stay. */
export const isListed = async ({ db }: Work, projectId: string, path: string): Promise<boolean> => {
  const { rows } = await sql`
    select from warehouse_parts where project_id = ${projectId}::uuid and path = ${path} limit 1`.execute(db);
  return rows.length > 0;
};

/** Forgets changes that need no record any more. */
export const forgetChanges = async (
  { db }: Work,
  projectId: string,
  seqs: readonly string[],
): Promise<void> => {
  if (seqs.length === 0) return;
  await sql`
    delete from warehouse_changes
    where project_id = ${projectId}::uuid and seq = any(${`{${seqs.join(",")}}`}::bigint[])`.execute(db);
};

/** Notes that the manifest has the entries up to one. @throws LeaseLost */
export const publishedUpTo = (work: Work, export_: Export, seq: number): Promise<void> =>
  change(work, export_, sql`published = ${seq}::bigint`);

/** Gives the project back. @param isBehind whether there is more to do at once */
export const closeExport = async (work: Work, export_: Export, isBehind: boolean): Promise<void> => {
  const now = instant(work.serverNow.getTime());
  await sql`
    update warehouse_projects set lease = null, leased_until = null, is_behind = ${isBehind},
      moved_at = ${now}, failing_since = null, failures = 0, retry_at = null
    where project_id = ${export_.projectId}::uuid and lease = ${export_.lease}::uuid`.execute(work.db);
};

/** Gives the project back where the process stops: it is due at once. @returns as `failExport` */
export const leaveExport = async ({ db }: Work, { projectId, lease }: Export): Promise<boolean> => {
  const { rows } = await sql`
    update warehouse_projects set lease = null, leased_until = null, is_behind = true
    where project_id = ${projectId}::uuid and lease = ${lease}::uuid returning 1`.execute(db);
  return rows.length > 0;
};

/**
 * Gives the project back after a failure; it is tried again after 5 s, and up to 10 min.
 * @returns false if another worker has it by now
 */
export const failExport = async ({ db, serverNow }: Work, { projectId, lease }: Export): Promise<boolean> => {
  const now = serverNow.getTime();
  const { rows } = await sql`
    update warehouse_projects set lease = null, leased_until = null, failures = failures + 1,
      failing_since = coalesce(failing_since, ${instant(now)}),
      retry_at = ${instant(now)} + interval '1 millisecond'
        * least(${sql.lit(LONGEST_RETRY_MS)}, ${sql.lit(FIRST_RETRY_MS)} * power(2, least(failures, 10)))
    where project_id = ${projectId}::uuid and lease = ${lease}::uuid returning 1`.execute(db);
  return rows.length > 0;
};

/** A listed file; `owed`: erased events that it may still have, since it could not be read. */
export type StoredPart = { seq: number; kind: PartKind; path: string; hourMs: number; owed: string[] };

const PARTS_AT_ONCE = 20;
/** A file that could not be read or removed is tried again after so long, in ms. */
const TRIED_AGAIN_MS = 600_000;

type RewriteRow = { seq: number; kind: PartKind; path: string; owed: string[] | null };

const HOUR = /date=(\d{4}-\d\d-\d\d)\/hour=(\d\d)\//;

/** The hour in which a file lies, in ms. */
const hourMsOf = (path: string): number => {
  const [, date, hour] = HOUR.exec(path)!;
  return Date.parse(`${date}T${hour}:00:00Z`);
};

const COLUMNS = sql`w.seq, w.kind, w.path, w.owed::text[] as owed`;
const idsOf = (ids: readonly string[]) => sql`${`{${ids.join(",")}}`}::uuid[]`;
const shown = ({ seq, kind, path, owed }: RewriteRow): StoredPart => ({
  seq,
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
  const { rows } = await sql<RewriteRow>`
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
  const { rows } = await sql<RewriteRow>`
    select ${COLUMNS} from warehouse_parts w
    where w.project_id = ${projectId}::uuid and w.owed is not null and w.removed_by is null
      and w.tried_at <= ${instant(serverNow.getTime() - TRIED_AGAIN_MS)}
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
    update warehouse_parts w set tried_at = ${instant(work.serverNow.getTime())}, owed = array(
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
  const { rows } = await sql<{ seq: number; path: string }>`
    select w.seq, w.path from warehouse_parts w
    join warehouse_projects p on p.project_id = w.project_id
    where w.project_id = ${projectId}::uuid and w.removed_by is not null and w.deleted_at is null
      and w.removed_by <= p.published
      and coalesce(w.tried_at <= ${instant(serverNow.getTime() - TRIED_AGAIN_MS)}, true)
    order by w.tried_at nulls first, w.seq limit ${sql.lit(PARTS_AT_ONCE)}`.execute(db);
  return rows;
};

/** Notes that a replaced file is gone, or cannot be removed. @throws LeaseLost */
export const noteRemoved = async (
  work: Work,
  export_: Export,
  { seq, isGone }: { seq: number; isGone: boolean },
): Promise<void> => {
  await keepLease(work, export_);
  const now = instant(work.serverNow.getTime());
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

/** A project with nothing to write says at least so often that it has come so far, in ms. */
const IDLE_MS = 6 * 3_600_000;
/**
 * Returns projects with something to write, those first that waited longest. None is looked at more often
 * than every `everyMs`, so that files do not become too small, except those that are behind.
 */
export const findDueExports = async (
  { db, serverNow }: Work,
  { everyMs, lagMs, limit }: { everyMs: number; lagMs: number; limit: number },
): Promise<string[]> => {
  const now = serverNow.getTime();
  const upTo = sql`${idFloor(now - lagMs)}::uuid`;
  const { rows } = await sql<{ id: string }>`
    select w.project_id::text as id from warehouse_projects w
    where w.registered_at <= ${instant(now - lagMs)} and not w.is_forgotten
      and coalesce(w.leased_until <= ${instant(now)}, true)
      and coalesce(w.retry_at <= ${instant(now)}, true)
      and exists (select from projects p where p.id = w.project_id and p.deleted_at is null)
      and (w.is_behind or w.published < w.seq or w.writing is not null or w.failures > 0
        or w.moved_at <= ${instant(now - IDLE_MS)}
        or exists (select from warehouse_parts l where l.project_id = w.project_id
          and l.tried_at <= ${instant(now - TRIED_AGAIN_MS)})
        or w.moved_at <= ${instant(now - everyMs)} and (
          exists (select from tracked_events e where e.project_id = w.project_id and e.id > w.cursor
            and e.id < ${upTo})
          or exists (select from ledger_entries l where l.project_id = w.project_id
            and l.id > w.ledger_cursor and l.id < ${upTo} and l.event_id is null)
          or exists (select from reward_grants g where g.project_id = w.project_id
            and g.id > w.rewards_cursor and g.id < ${upTo})
          or exists (select from warehouse_changes c where c.project_id = w.project_id)))
    order by w.moved_at, w.project_id limit ${limit}`.execute(db);
  return rows.map(({ id }) => id);
};

/** Reads for how long the oldest event of any project has waited to be in a file, in seconds. */
export const readWarehouseLag = async ({ db, serverNow }: Work): Promise<number> => {
  const { rows } = await sql<{ id: string | null }>`
    select (select n.id from warehouse_projects w cross join lateral (
      select e.id from tracked_events e where e.project_id = w.project_id and e.id > w.cursor
      order by e.id limit 1) n order by n.id limit 1)::text as id`.execute(db);
  const id = rows[0]?.id;
  return id == null ? 0 : Math.max(0, (serverNow.getTime() - timeOfId(id)) / 1_000);
};
