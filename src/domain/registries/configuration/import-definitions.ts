import { sql } from "kysely";
import { auditDefinitions, type DefinitionChange } from "../../accounts/audit/audit.ts";
import { type DefinitionKind, refuseFull } from "../../economy/definitions/definitions.ts";
import { adventuresOf, createInUse, itemInUse } from "../../economy/definitions/in-use.ts";
import { movePhases, pausesOfArchived, pausesOfRestored } from "../../economy/definitions/phases.ts";
import {
  type ProjectDefinitions,
  shareDefinitions,
  UnknownReference,
} from "../../economy/definitions/references.ts";
import { checkSize } from "../../economy/definitions/running.ts";
import type { Defined, Phase, Stored } from "../../evaluation/live.ts";
import { createSizedCache } from "../../kernel/caches.ts";
import type { Json } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";
import { nextSlice, SLICE_MS } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import { type ConfigChange, namedError, naming } from "./diff.ts";
import { writeInParts } from "./import-rules.ts";
import { DEFINITION_KINDS } from "../definition-kinds.ts";

type Name = { kind: string; key: string };

/** A definition that does not run, archived or never published: it does when a document names it. */
type Archived = Name & { id: string; version: number };

/** Documents that are read in one statement, at most, in JSON; one at least. */
const PIECE = { items: 100, bytes: 512 * 1024 };
/** Documents that are held: one whose references do not exist yet is asked for again. */
const HELD = { items: 1_000, bytes: 2 * 1024 * 1024 };

const archivedName = ({ kind, key }: Name): string => `${kind} ${key}`;

/** The archived definitions of a project that an import names; their documents are read when asked for. */
class ArchivedDefinitions {
  readonly #work: Work;
  readonly #projectId: string;
  readonly #byName: ReadonlyMap<string, Archived>;
  /** In the order in which they are likely to be asked for. */
  readonly #pending: Map<string, Archived>;
  readonly #held = createSizedCache<Defined>(HELD);

  constructor(work: Work, projectId: string, found: readonly Archived[]) {
    this.#work = work;
    this.#projectId = projectId;
    this.#byName = new Map(found.map((one) => [archivedName(one), one]));
    this.#pending = new Map(this.#byName);
  }

  find(name: Name): Archived | undefined {
    return this.#byName.get(archivedName(name));
  }

  /** Returns the document of a definition, which is read with some of those that follow. */
  async documentOf(one: Archived): Promise<Defined> {
    const name = archivedName(one);
    const held = this.#held.get(name);
    if (held) return held;
    const piece = [one];
    for (const [other, next] of this.#pending) {
      if (piece.length === PIECE.items) break;
      if (other !== name) piece.push(next);
    }
    const documents = await this.#read(piece);
    for (const { definition, bytes, ...of } of documents.toReversed())
      this.#held.keep(archivedName(of), definition, { owner: "", bytes });
    return documents[0]!.definition;
  }

  /** To be called when a definition was restored: its document is not asked for again. */
  done(one: Archived): void {
    this.#pending.delete(archivedName(one));
    this.#held.drop(archivedName(one));
  }

  async #read(piece: readonly Archived[]): Promise<(Name & { definition: Defined; bytes: number })[]> {
    const ids = JSON.stringify(piece.map(({ id }, place) => ({ id, place })));
    const { rows } = await sql<Name & { definition: Defined; bytes: number }>`
      select kind, key, definition, bytes from (
        select d.kind, d.key, d.definition, d.bytes, r.place,
          sum(d.bytes) over (order by r.place) as upto
        from json_to_recordset(${ids}::json) as r(id uuid, place int)
        join definitions d on d.id = r.id and d.project_id = ${this.#projectId}) those
      where place = 0 or upto <= ${PIECE.bytes} order by place`.execute(this.#work.db);
    return rows;
  }
}

/**
 * Finds which of these names are those of archived definitions, in the order of the names.
 * @returns them, and the number of all archived definitions by kind
 */
const findArchived = async (
  work: Work,
  projectId: string,
  names: readonly Name[],
): Promise<{ archived: ArchivedDefinitions; counts: ReadonlyMap<string, number> }> => {
  const wanted = JSON.stringify(names.map(({ kind, key }, place) => ({ kind, key, place })));
  const { rows } = await sql<{ kind: string; n: number; named: (Archived & { place: number })[] }>`
    select d.kind, count(*) as n, coalesce(json_agg(json_build_object('kind', d.kind, 'key', d.key,
      'id', d.id, 'version', d.version, 'place', r.place)) filter (where r.place is not null), '[]') as named
    from definitions d
    left join json_to_recordset(${wanted}::json) as r(kind text, key text, place int)
      on r.kind = d.kind and r.key = d.key
    where d.project_id = ${projectId} and d.status <> 'ACTIVE' group by d.kind`.execute(work.db);
  const named = rows.flatMap((one) => one.named).toSorted((a, b) => a.place - b.place);
  const counts = new Map(rows.map(({ kind, n }) => [kind, n]));
  return { archived: new ArchivedDefinitions(work, projectId, named), counts };
};

/** Definitions to create or change, each with its target state. */
export type WantedDefinition = { change: ConfigChange; wanted: Json; phase?: Phase | undefined };

type Counts = { active: number; all: number };
type Kinds = ReadonlyMap<string, DefinitionKind>;

const KINDS: Kinds = new Map(DEFINITION_KINDS.map((kind) => [kind.plural, kind]));

/** Whether a section of a document contains definitions of a kind; others are boards and rules. */
export const isDefinitions = ({ section }: ConfigChange): boolean => KINDS.has(section);

const nameOf = ({ kind, key }: { kind: string; key: string }): string => `${kind} ${key}`;

/** An import of definitions, assembled in memory: nothing is written before everything is checked. */
type Draft = {
  work: Work;
  projectId: string;
  definitions: ProjectDefinitions;
  counts: Map<string, Counts>;
  archived: ArchivedDefinitions;
  created: (Stored & { kind: string })[];
  updated: (Stored & { kind: string })[];
  audited: DefinitionChange[];
};

const openDraft = async (
  work: Work,
  projectId: string,
  wanted: readonly WantedDefinition[],
): Promise<Draft> => {
  const definitions = await shareDefinitions(work, projectId);
  const names = wanted
    .filter(({ change }) => change.action === "CREATE")
    .map(({ change: { section, key } }) => ({ kind: KINDS.get(section)!.kind, key }));
  const { archived, counts: kept } = await findArchived(work, projectId, names);
  const counts = new Map<string, Counts>();
  for (const { kind } of DEFINITION_KINDS) {
    const active = definitions.all(kind).length;
    counts.set(kind, { active, all: active + (kept.get(kind) ?? 0) });
  }
  return { work, projectId, definitions, counts, archived, created: [], updated: [], audited: [] };
};

/** Creates a definition, or restores the archived one of its key: players may still hold something of it. */
const create = async (draft: Draft, kind: DefinitionKind, definition: Defined): Promise<void> => {
  const { work, projectId, definitions, counts, archived } = draft;
  const { key } = definition;
  const old = archived.find({ kind: kind.kind, key });
  if (old) return restore(draft, kind, { old, definition });
  const count = counts.get(kind.kind)!;
  refuseFull(kind, count);
  checkSize(kind.kind, definition);
  await kind.check?.(work, projectId, definition, undefined);
  const stored: Stored = { id: newId(), projectId, definition, status: "ACTIVE", version: 1 };
  count.active++;
  count.all++;
  definitions.put(kind.kind, stored);
  draft.created.push({ ...stored, kind: kind.kind });
  draft.audited.push({ action: `${kind.kind}.created`, definition: { projectId, id: stored.id, key } });
};

type Restored = { old: Archived; definition: Defined };

const restore = async (draft: Draft, kind: DefinitionKind, { old, definition }: Restored): Promise<void> => {
  const { work, projectId, definitions, counts, archived } = draft;
  const count = counts.get(kind.kind)!;
  refuseFull(kind, { active: count.active, all: count.all - 1 });
  checkSize(kind.kind, definition);
  if (kind.check) await kind.check(work, projectId, definition, await archived.documentOf(old));
  archived.done(old);
  const { id, key } = old;
  const stored: Stored = { id, projectId, definition, status: "ACTIVE", version: old.version + 1 };
  count.active++;
  definitions.put(kind.kind, stored);
  draft.updated.push({ ...stored, kind: kind.kind });
  draft.audited.push({ action: `${kind.kind}.restored`, definition: { projectId, id, key } });
};

const update = async (draft: Draft, kind: DefinitionKind, definition: Defined): Promise<void> => {
  const { work, projectId, definitions } = draft;
  const { key } = definition;
  const before = definitions.get(kind.kind, key)!;
  checkSize(kind.kind, definition);
  await kind.check?.(work, projectId, definition, before.definition);
  const stored: Stored = { ...before, definition, version: before.version + 1 };
  definitions.put(kind.kind, stored);
  draft.updated.push({ ...stored, kind: kind.kind });
  draft.audited.push({ action: `${kind.kind}.updated`, definition: { projectId, id: stored.id, key } });
};

/** A definition that references others which do not exist yet: `open` of them. */
type Unresolved = WantedDefinition & { error: UnknownReference; open: number };

/** What waits: by itself, and by the names that it waits for. */
type Waiting = { all: Set<Unresolved>; byName: Map<string, Unresolved[]> };

const wantedName = ({ change: { section, key } }: WantedDefinition): string =>
  nameOf({ kind: KINDS.get(section)!.kind, key });

/** Notes what a definition waits for. */
const wait = ({ all, byName }: Waiting, one: WantedDefinition, error: UnknownReference): void => {
  const names = new Set(error.missing.map(nameOf));
  const waits: Unresolved = { ...one, error, open: names.size };
  all.add(waits);
  for (const name of names) byName.set(name, [...(byName.get(name) ?? []), waits]);
};

/** Returns what waits for nothing else now that a definition is there. */
const released = ({ all, byName }: Waiting, name: string): Unresolved[] => {
  const free = (byName.get(name) ?? []).filter((one) => all.has(one) && --one.open === 0);
  byName.delete(name);
  for (const one of free) all.delete(one);
  return free;
};

/** Adds definitions to the draft in their order, and what has waited for them; others wait. */
const draftThese = async (
  draft: Draft,
  given: readonly WantedDefinition[],
  waiting: Waiting,
): Promise<void> => {
  const queue = [...given];
  let startMs = performance.now();
  for (const one of queue) {
    const missing = await tryOne(draft, one);
    if (missing) wait(waiting, one, missing);
    else queue.push(...released(waiting, wantedName(one)));
    if (performance.now() - startMs < SLICE_MS) continue;
    await nextSlice();
    startMs = performance.now();
  }
};

/** Returns the definitions that wait for one another alone, as a quest and its adventure may. */
const circular = ({ all }: Waiting): Unresolved[] => {
  let left = [...all].filter(({ change }) => change.action === "CREATE");
  for (;;) {
    const names = new Set(left.map(wantedName));
    const kept = left.filter(({ error }) => error.missing.every((one) => names.has(nameOf(one))));
    if (kept.length === left.length) return kept;
    left = kept;
  }
};

/**
 * Adds all definitions to the draft, each after those that it references: one with missing references waits
 * for exactly those. Those that wait for one another are each checked as if the others were there.
 * @returns those whose references are not resolved
 */
const draftAll = async (
  draft: Draft,
  wanted: readonly WantedDefinition[],
): Promise<ReadonlySet<Unresolved>> => {
  const waiting: Waiting = { all: new Set(), byName: new Map() };
  await draftThese(draft, wanted, waiting);
  const together = circular(waiting);
  const { projectId } = draft;
  for (const one of together) {
    waiting.all.delete(one);
    const definition = one.wanted as Defined;
    const stored: Stored = { id: newId(), projectId, definition, status: "ACTIVE", version: 1 };
    draft.definitions.put(KINDS.get(one.change.section)!.kind, stored);
  }
  await draftThese(draft, together, waiting);
  return waiting.all;
};

const refuseWaiting = (wanted: readonly WantedDefinition[], waiting: ReadonlySet<Unresolved>): void => {
  if (waiting.size === 0) return;
  const errors = new Map([...waiting].map(({ change, error }) => [change, error]));
  const { change } = wanted.findLast((one) => errors.has(one.change))!;
  throw namedError(errors.get(change), change);
};

/** @returns the unresolved reference */
const tryOne = async (
  draft: Draft,
  { change, wanted }: WantedDefinition,
): Promise<UnknownReference | undefined> => {
  const kind = KINDS.get(change.section)!;
  try {
    await (change.action === "CREATE" ? create : update)(draft, kind, wanted as Defined);
    return undefined;
  } catch (error) {
    if (error instanceof UnknownReference) return error;
    throw namedError(error, change);
  }
};

type DefinitionImport = {
  wanted: readonly WantedDefinition[];
  /** Whether those that name what is not there yet may be left for another call. */
  mayWait?: boolean;
  actor: string;
  signal: AbortSignal;
};

/**
 * Creates and changes a project's definitions as `createDefinition` and `patchDefinition` do, with time and
 * statements linear in their number; archived ones are restored. Must be called under the project's config
 * lock.
 * @returns those that were left
 * @throws DomainError as those, prefixed by section and key
 */
export const importDefinitions = async (
  work: Work,
  projectId: string,
  { wanted, mayWait = false, actor, signal }: DefinitionImport,
): Promise<WantedDefinition[]> => {
  const draft = await openDraft(work, projectId, wanted);
  const waiting = await draftAll(draft, wanted);
  if (!mayWait) refuseWaiting(wanted, waiting);
  signal.throwIfAborted();
  const at = work.now.toISOString();
  const rows = draft.created.map(({ id, kind, definition }) => {
    return { id, kind, key: definition.key, name: definition.name, definition };
  });
  await writeInParts(rows, signal, (json) =>
    sql`
      insert into definitions (id, project_id, kind, key, name, definition, status, version, created_by,
        created_at, updated_at)
      select id, ${projectId}::uuid, kind, key, name, definition, 'ACTIVE', 1, ${actor},
        ${at}::timestamptz, ${at}::timestamptz
      from json_to_recordset(${json}::json)
        as r(id uuid, kind text, key text, name text, definition jsonb)`.execute(work.db),
  );
  const changed = draft.updated.map(({ id, definition }) => ({ id, name: definition.name, definition }));
  await writeInParts(changed, signal, (json) =>
    sql`
      update definitions d set definition = r.definition, name = r.name, version = d.version + 1,
        draft = null, draft_version = d.draft_version + 1, status = 'ACTIVE', pauses = ${pausesOfRestored()}, updated_at = ${at}::timestamptz
      from json_to_recordset(${json}::json) as r(id uuid, name text, definition jsonb)
      where d.id = r.id and d.project_id = ${projectId}`.execute(work.db),
  );
  await auditDefinitions(work, draft.audited);
  const left = new Set([...waiting].map(({ change }) => change));
  return wanted.filter(({ change }) => left.has(change));
};

/** Refuses to archive or end quests of adventures that go on. @throws DomainError CONFLICT: IN_USE, as above */
const refuseItems = async (
  work: Work,
  projectId: string,
  changes: readonly ConfigChange[],
): Promise<void> => {
  const quests = changes.filter(({ section }) => KINDS.get(section)!.kind === "quest");
  if (quests.length === 0) return;
  const keys = quests.map(({ key }) => key);
  const adventures = await adventuresOf(work, projectId, keys);
  for (const change of quests) {
    const inUse = itemInUse(adventures.get(change.key));
    if (inUse) throw namedError(inUse, change);
  }
};

const MOVED: Readonly<Record<Phase, string>> = { RUNNING: "resumed", PAUSED: "paused", ENDED: "ended" };

/**
 * Makes quests and adventures run, pause or end as a document says; must be called last.
 * @throws DomainError CONFLICT: IN_USE, prefixed by section and key
 */
export const importPhases = async (
  work: Work,
  projectId: string,
  wanted: readonly WantedDefinition[],
): Promise<void> => {
  const phased = wanted.flatMap(({ change: { section, key }, phase }) =>
    phase ? [{ kind: KINDS.get(section)!.kind, key, phase }] : [],
  );
  const moved = await movePhases(work, projectId, phased);
  const ended = new Set(moved.filter(({ phase }) => phase === "ENDED").map(nameOf));
  const updated = wanted.filter((one) => one.change.action === "UPDATE" && ended.has(wantedName(one)));
  const changes = updated.map(({ change }) => change);
  await refuseItems(work, projectId, changes);
  await followStopped(
    work,
    projectId,
    changes.map(({ section, key }) => ({ kind: KINDS.get(section)!.kind, key })),
  );
  await auditDefinitions(
    work,
    moved.map(({ id, kind, key, phase }) => {
      return { action: `${kind}.${MOVED[phase]}`, definition: { projectId, id, key } };
    }),
  );
};

/** To be called with what was archived or ended. */
const followStopped = async (
  work: Work,
  projectId: string,
  stopped: readonly { kind: string; key: string }[],
): Promise<void> => {
  for (const kind of KINDS.values()) {
    const keys = stopped.filter((one) => one.kind === kind.kind).map(({ key }) => key);
    if (keys.length > 0) await kind.stopped?.(work, projectId, keys);
  }
};

/**
 * Archives definitions as `archiveDefinition` does; must be called when the project's rules are in their
 * final state.
 * @throws DomainError CONFLICT: IN_USE, prefixed by section and key
 */
export const archiveDefinitions = async (
  work: Work,
  projectId: string,
  changes: readonly ConfigChange[],
): Promise<void> => {
  if (changes.length === 0) return;
  const refuse = await createInUse(work, projectId);
  const rows = changes.map(({ section, key }) => ({ kind: KINDS.get(section)!.kind, key }));
  for (const [i, row] of rows.entries()) await naming(changes[i]!, () => refuse(row));
  const found = await sql<{ id: string; kind: string; key: string }>`
    update definitions d set status = 'ARCHIVED', pauses = ${pausesOfArchived()},
      updated_at = ${work.now.toISOString()}::timestamptz
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(kind text, key text)
    where d.project_id = ${projectId} and d.kind = r.kind and d.key = r.key and d.status = 'ACTIVE'
    returning d.id, d.kind, d.key`.execute(work.db);
  await refuseItems(work, projectId, changes);
  await followStopped(work, projectId, found.rows);
  const audited = found.rows.map(({ id, kind, key }) => {
    return { action: `${kind}.archived`, definition: { projectId, id, key } };
  });
  await auditDefinitions(work, audited);
};
