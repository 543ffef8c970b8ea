import { sql } from "kysely";
import { conflict, DomainError } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import { inPieces } from "../../kernel/pieces.ts";
import { nextSlice, SLICE_MS } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import {
  type ProjectDefinitions,
  shareDefinitions,
  unshareDefinitions,
} from "../../economy/definitions/project-definitions.ts";
import { ARCHIVED_FACTOR } from "../../economy/definitions/definitions.ts";
import type { DefinitionKind } from "../../economy/definitions/kind.ts";
import type { Defined, Stored } from "../../evaluation/live.ts";
import { DEFINITION_KINDS } from "../definition-kinds.ts";

type Sync = { from: string; to: string; actor: string };
type Skipped = { kind: string; key: string; reason: string };
type Status = "ACTIVE" | "ARCHIVED";

/** Number of created, changed or archived definitions, by the plural of their kind, and skipped ones. */
export type SyncedDefinitions = { counts: Record<string, number>; skipped: Skipped[] };

/** A definition that is not the same in both projects. */
type Pair = {
  kind: string;
  key: string;
  /** Of the document of the source. */
  bytes: number;
  sourceId: string;
  status: Status;
  ownId: string | null;
  ownStatus: Status | null;
};

const KINDS: ReadonlyMap<string, DefinitionKind> = new Map(DEFINITION_KINDS.map((kind) => [kind.kind, kind]));

/**
 * Copies the definitions of all kinds from one project to another, by key. Definitions that only the target
 * has stay unchanged, and so do those that are archived there, or whose change would contradict players'
 * holdings. Reads only what differs, and of documents only those that must be checked. Must be called under
 * the config locks of both.
 * @throws DomainError CONFLICT DEFINITION_LIMIT
 */
export const syncDefinitions = async (work: Work, sync: Sync): Promise<SyncedDefinitions> => {
  const pairs = await readPairs(work, sync);
  const counts = Object.fromEntries(DEFINITION_KINDS.map(({ plural }) => [plural, 0]));
  const skipped: Skipped[] = [];
  // New ones first: changed ones may reference them; archived ones come last.
  const added = pairs.filter(({ ownId }) => ownId === null);
  await inPieces(added, (piece) => add(work, sync, piece));
  const known = pairs.filter(({ ownId }) => ownId !== null);
  const [ended, open] = [known.filter(isEnded), known.filter((pair) => !isEnded(pair))];
  for (const { kind, key } of open.filter(isKeptArchived))
    skipped.push({ kind, key, reason: "it is archived in the sandbox" });
  const { changed, refused } = await changeAll(
    work,
    sync,
    open.filter((pair) => !isKeptArchived(pair)),
  );
  skipped.push(...refused);
  await inPieces(ended, (piece) => end(work, sync, piece));
  for (const { kind } of [...added, ...changed, ...ended]) counts[KINDS.get(kind)!.plural]!++;
  await checkRoom(work, sync.to);
  return { counts, skipped };
};

const isEnded = ({ status }: Pair): boolean => status === "ARCHIVED";
const isKeptArchived = ({ ownStatus }: Pair): boolean => ownStatus === "ARCHIVED";

/** Finds what differs, by kind in the order of DEFINITION_KINDS. */
const readPairs = async ({ db }: Work, { from, to }: Sync): Promise<Pair[]> => {
  const { rows } = await sql<Pair>`
    select s.kind, s.key, s.bytes, s.id as "sourceId", s.status, o.id as "ownId", o.status as "ownStatus"
    from definitions s
    left join definitions o on o.project_id = ${to} and o.kind = s.kind and o.key = s.key
    where s.project_id = ${from} and case when o.id is null then s.status = 'ACTIVE'
      else s.status <> o.status or (s.status = 'ACTIVE' and s.digest <> o.digest) end
    order by s.id`.execute(db);
  return DEFINITION_KINDS.flatMap(({ kind }) => rows.filter((row) => row.kind === kind));
};

const add = ({ db, now }: Work, { from, to, actor }: Sync, piece: readonly Pair[]): Promise<unknown> => {
  const rows = JSON.stringify(piece.map(({ sourceId }) => ({ source: sourceId, id: newId() })));
  const at = sql`${now.toISOString()}::timestamptz`;
  return sql`
    insert into definitions (id, project_id, kind, key, name, definition, status, version, created_by,
      created_at, updated_at)
    select r.id, ${to}::uuid, s.kind, s.key, s.name, s.definition, s.status, 1, ${actor}, ${at}, ${at}
    from json_to_recordset(${rows}::json) as r(id uuid, source uuid)
    join definitions s on s.project_id = ${from} and s.id = r.source`.execute(db);
};

/** Archives definitions that are archived in the source. */
const end = ({ db, now }: Work, { to }: Sync, piece: readonly Pair[]): Promise<unknown> => {
  const ids = `{${piece.map(({ ownId }) => ownId).join(",")}}`;
  return sql`
    update definitions set status = 'ARCHIVED', updated_at = ${now.toISOString()}::timestamptz
    where project_id = ${to} and id = any(${ids}::uuid[])`.execute(db);
};

type Changes = { changed: Pair[]; refused: Skipped[] };

/** Changes those definitions of the target that may become those of the source. */
const changeAll = async (work: Work, sync: Sync, pairs: readonly Pair[]): Promise<Changes> => {
  const changes: Changes = { changed: [], refused: [] };
  if (pairs.length === 0) return changes;
  const definitions = await shareDefinitions(work, sync.to);
  try {
    await inPieces(pairs, async (piece) => {
      const accepted = await checkPiece(work, sync, { piece, definitions, refused: changes.refused });
      if (accepted.length > 0) await change(work, sync, accepted);
      changes.changed.push(...accepted);
    });
  } finally {
    unshareDefinitions(work, sync.to);
  }
  return changes;
};

type Checked = { piece: readonly Pair[]; definitions: ProjectDefinitions; refused: Skipped[] };

/** @returns those that may change */
const checkPiece = async (work: Work, { from, to }: Sync, checked: Checked): Promise<Pair[]> => {
  const { piece, definitions, refused } = checked;
  const ids = `{${piece.map(({ sourceId }) => sourceId).join(",")}}`;
  const { rows } = await sql<{ id: string; definition: Defined }>`
    select id, definition from definitions
    where project_id = ${from} and id = any(${ids}::uuid[])`.execute(work.db);
  const documents = new Map(rows.map(({ id, definition }) => [id, definition]));
  const accepted: Pair[] = [];
  let startMs = performance.now();
  for (const pair of piece) {
    const { kind, key, sourceId } = pair;
    const own = definitions.get(kind, key)!;
    const stored: Stored = { ...own, definition: documents.get(sourceId)! };
    const reason = await problemOf(() =>
      KINDS.get(kind)!.check?.(work, to, stored.definition, own.definition),
    );
    if (reason === undefined) {
      // The next check reads it there.
      definitions.put(kind, stored);
      accepted.push(pair);
    } else refused.push({ kind, key, reason });
    if (performance.now() - startMs < SLICE_MS) continue;
    await nextSlice();
    startMs = performance.now();
  }
  return accepted;
};

const change = ({ db, now }: Work, { from, to }: Sync, pairs: readonly Pair[]): Promise<unknown> => {
  const rows = JSON.stringify(pairs.map(({ ownId, sourceId }) => ({ own: ownId, source: sourceId })));
  return sql`
    update definitions o set definition = s.definition, name = s.name, version = o.version + 1,
      updated_at = ${now.toISOString()}::timestamptz
    from json_to_recordset(${rows}::json) as r(own uuid, source uuid)
    join definitions s on s.project_id = ${from} and s.id = r.source
    where o.project_id = ${to} and o.id = r.own`.execute(db);
};

const problemOf = async (check: () => Promise<void> | undefined): Promise<string | undefined> => {
  try {
    await check();
    return undefined;
  } catch (error) {
    if (error instanceof DomainError) return error.message;
    throw error;
  }
};

const checkRoom = async ({ db }: Work, projectId: string): Promise<void> => {
  const { rows } = await sql<{ kind: string; active: string | number; all: string | number }>`
    select kind, count(*) filter (where status = 'ACTIVE') as active, count(*) as all
    from definitions where project_id = ${projectId} group by kind`.execute(db);
  const byKind = new Map(rows.map((row) => [row.kind, row]));
  for (const { kind, plural, max } of DEFINITION_KINDS) {
    const { active, all } = byKind.get(kind) ?? { active: 0, all: 0 };
    if (Number(active) <= max && Number(all) <= max * ARCHIVED_FACTOR) continue;
    const limits = `${max} ${plural}, and ${max * ARCHIVED_FACTOR} with archived ones`;
    throw conflict("DEFINITION_LIMIT", `together with its own, the sandbox would have more than ${limits}`);
  }
};
