import { sql } from "kysely";
import { newId, NIL_ID } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import type { Part, Stream } from "./part.ts";

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
  const at = sql`${serverNow.toISOString()}::timestamptz`;
  await sql`
    insert into warehouse_projects (project_id, cursor, registered_at, moved_at)
    select p.id, ${NIL_ID}::uuid, ${at}, ${at} from projects p
    where p.deleted_at is null
      and not exists (select from warehouse_projects w where w.project_id = p.id)
    on conflict do nothing`.execute(db);
};

type Row = Omit<Export, "seq" | "published" | "cursors"> & {
  events: string;
  ledger: string;
  rewards: string;
  seq: string | number;
  published: string | number;
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
    update warehouse_projects set lease = ${lease}::uuid, leased_until = ${at(now + LEASE_MS)}
    where project_id = ${projectId}::uuid and registered_at <= ${at(now - lagMs)}
      and not is_forgotten
      and coalesce(leased_until <= ${at(now)}, true) and coalesce(retry_at <= ${at(now)}, true)
    returning project_id::text as "projectId", lease::text, cursor::text as events,
      ledger_cursor::text as ledger, rewards_cursor::text as rewards, seq, published, writing,
      knows_merges`.execute(db);
  const [row] = rows;
  if (!row) return undefined;
  if (!row.knows_merges) await noteEarlierMerges(work, projectId);
  const { lease: own, events, ledger, rewards, seq, published, writing } = row;
  const cursors = { events, ledger, rewards };
  return { projectId, lease: own, cursors, seq: Number(seq), published: Number(published), writing };
};

const at = (ms: number) => sql`${new Date(ms).toISOString()}::timestamptz`;

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
    update warehouse_projects set leased_until = ${at(serverNow.getTime() + LEASE_MS)}, ${columns}
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
  const now = at(serverNow.getTime());
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
  const now = at(work.serverNow.getTime());
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
      failing_since = coalesce(failing_since, ${at(now)}),
      retry_at = ${at(now)} + interval '1 millisecond'
        * least(${sql.lit(LONGEST_RETRY_MS)}, ${sql.lit(FIRST_RETRY_MS)} * power(2, least(failures, 10)))
    where project_id = ${projectId}::uuid and lease = ${lease}::uuid returning 1`.execute(db);
  return rows.length > 0;
};
