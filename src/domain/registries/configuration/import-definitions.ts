import { sql } from "kysely";
import { auditDefinitions, type DefinitionChange } from "../../accounts/audit/audit.ts";
import { type DefinitionKind, refuseFull } from "../../economy/definitions/definitions.ts";
import {
  adventuresOf,
  createInUse,
  itemInUse,
  type ProjectDefinitions,
  shareDefinitions,
  UnknownReference,
} from "../../economy/definitions/references.ts";
import { movePhases, pausesOfArchived, pausesOfRestored } from "../../economy/definitions/phases.ts";
import { checkSize } from "../../economy/definitions/running.ts";
import type { Defined, Phase, Stored } from "../../evaluation/live.ts";
import type { Json } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";
import { nextSlice, SLICE_MS } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import type { ConfigChange } from "./diff.ts";
import { type Copied, naming, skipOrThrow } from "./import-change.ts";
import { writeInParts } from "./import-rules.ts";
import { DEFINITION_KINDS } from "../definition-kinds.ts";

type Name = { kind: string; key: string };

/** A definition that does not run, archived or never published: it does when a document names it. */
type Archived = Name & { id: string; version: number };

const nameOf = ({ kind, key }: Name): string => `${kind} ${key}`;

/**
 * Finds which of these names are those of archived definitions.
 * @returns them, and the number of all archived definitions by kind
 */
const findArchived = async (
  work: Work,
  projectId: string,
  names: readonly Name[],
): Promise<{ archived: ReadonlyMap<string, Archived>; counts: ReadonlyMap<string, number> }> => {
  const { rows } = await sql<{ kind: string; n: number; named: Archived[] }>`
    select d.kind, count(*) as n, coalesce(json_agg(json_build_object('kind', d.kind, 'key', d.key,
      'id', d.id, 'version', d.version)) filter (where r.key is not null), '[]') as named
    from definitions d
    left join json_to_recordset(${JSON.stringify(names)}::json) as r(kind text, key text)
      on r.kind = d.kind and r.key = d.key
    where d.project_id = ${projectId} and d.status <> 'ACTIVE' group by d.kind`.execute(work.db);
  const counts = new Map(rows.map(({ kind, n }) => [kind, n]));
  const named = rows.flatMap((one) => one.named.map((found) => [nameOf(found), found] as const));
  return { archived: new Map(named), counts };
};

/** Definitions to create or change, each with its target state. */
export type WantedDefinition = { change: ConfigChange; wanted: Json; phase?: Phase | undefined };

type Counts = { active: number; all: number };
type Kinds = ReadonlyMap<string, DefinitionKind>;

const KINDS: Kinds = new Map(DEFINITION_KINDS.map((kind) => [kind.plural, kind]));

/** Whether a section of a document contains definitions of a kind; others are boards and rules. */
export const isDefinitions = ({ section }: ConfigChange): boolean => KINDS.has(section);

const named = ({ section, key }: ConfigChange): Name => ({
  kind: KINDS.get(section)!.kind,
  key,
});

/** Whether a change is one of a quest, which ends after the adventures that have it. */
const isQuest = ({ section }: ConfigChange): boolean => KINDS.get(section)!.kind === "quest";

/** An import of definitions, assembled in memory: nothing is written before everything is checked. */
type Draft = {
  work: Work;
  projectId: string;
  definitions: ProjectDefinitions;
  counts: Map<string, Counts>;
  /** By name. */
  archived: ReadonlyMap<string, Archived>;
  created: (Stored & { kind: string })[];
  updated: (Stored & { kind: string })[];
  audited: DefinitionChange[];
  copied: Copied | undefined;
};

const openDraft = async (
  work: Work,
  projectId: string,
  { wanted, archived: gone, copied }: DefinitionImport,
): Promise<Draft> => {
  const definitions = await shareDefinitions(work, projectId);
  const names = wanted.filter(({ change }) => change.action === "CREATE").map(({ change }) => named(change));
  const { archived, counts: kept } = await findArchived(work, projectId, names);
  const counts = new Map<string, Counts>();
  for (const { kind, plural } of DEFINITION_KINDS) {
    const active = definitions.all(kind).length;
    // Those that are archived at the end make room now.
    const ending = gone.filter(({ section, key }) => section === plural && definitions.get(kind, key)).length;
    counts.set(kind, { active: active - ending, all: active + (kept.get(kind) ?? 0) });
  }
  return { work, projectId, definitions, counts, archived, created: [], updated: [], audited: [], copied };
};

/** What a document's definition becomes: a further version of what is known by its key, or a new one. */
type Known = {
  id: string;
  version: number;
  /** What runs; of a restored one its document is read when it is needed. */
  definition?: Defined;
  step: "created" | "restored" | "updated";
};

/** Archived ones are restored: players may still hold something of them. */
const knownOf = ({ definitions, archived }: Draft, change: ConfigChange): Known => {
  const { kind, key } = named(change);
  if (change.action === "UPDATE") return { ...definitions.get(kind, key)!, step: "updated" };
  const old = archived.get(nameOf({ kind, key }));
  return old ? { ...old, step: "restored" } : { id: newId(), version: 0, step: "created" };
};

const readDocument = async ({ db }: Work, id: string): Promise<Defined> => {
  const { rows } = await sql<{ definition: Defined }>`
    select definition from definitions where id = ${id}::uuid`.execute(db);
  return rows[0]!.definition;
};

/** Adds a definition to the draft. @throws DomainError as `createDefinition` and `patchDefinition` do */
const draftOne = async (draft: Draft, { change, wanted }: WantedDefinition): Promise<void> => {
  const { work, projectId, definitions, counts } = draft;
  const kind = KINDS.get(change.section)!;
  const definition = wanted as Defined;
  const { id, version, step, definition: running } = knownOf(draft, change);
  const [isNew, count] = [step === "created", counts.get(kind.kind)!];
  if (!running) refuseFull(kind, { active: count.active, all: isNew ? count.all : count.all - 1 });
  checkSize(kind.kind, definition);
  // A copy has all that is new, as the project has it: one may name what was archived since.
  if (kind.check && !(isNew && draft.copied)) {
    const before = step === "restored" ? await readDocument(work, id) : running;
    await kind.check(work, projectId, definition, before);
  }
  if (!running) count.active++;
  if (isNew) count.all++;
  const stored: Stored = { id, projectId, definition, status: "ACTIVE", version: version + 1 };
  definitions.put(kind.kind, stored);
  draft[isNew ? "created" : "updated"].push({ ...stored, kind: kind.kind });
  draft.audited.push({ action: `${kind.kind}.${step}`, definition: { projectId, id, key: definition.key } });
};

/** A definition that references others which do not exist yet: `open` of them. */
type Unresolved = WantedDefinition & { error: UnknownReference; open: number };

/** What waits: by itself, and by the names that it waits for. */
type Waiting = { all: Set<Unresolved>; byName: Map<string, Unresolved[]> };

const wantedName = ({ change }: WantedDefinition): string => nameOf(named(change));

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

const refuseWaiting = ({ wanted, copied }: DefinitionImport, waiting: ReadonlySet<Unresolved>): void => {
  const errors = new Map([...waiting].map(({ change, error }) => [change, error]));
  for (const { change } of wanted.toReversed())
    if (errors.has(change)) skipOrThrow(errors.get(change), change, copied);
};

/** @returns the unresolved reference */
const tryOne = async (draft: Draft, wanted: WantedDefinition): Promise<UnknownReference | undefined> => {
  try {
    await draftOne(draft, wanted);
  } catch (error) {
    if (error instanceof UnknownReference) return error;
    skipOrThrow(error, wanted.change, draft.copied);
  }
  return undefined;
};

type DefinitionImport = {
  wanted: readonly WantedDefinition[];
  /** Changes that will archive definitions. */
  archived: readonly ConfigChange[];
  /** Whether those that name what is not there yet may be left for another call. */
  mayWait?: boolean;
  actor: string;
  signal: AbortSignal;
  copied?: Copied | undefined;
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
  asked: DefinitionImport,
): Promise<WantedDefinition[]> => {
  const { wanted, mayWait = false, actor, signal } = asked;
  const draft = await openDraft(work, projectId, asked);
  const waiting = await draftAll(draft, wanted);
  if (!mayWait) refuseWaiting(asked, waiting);
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

type Ending = { changes: readonly ConfigChange[]; copied?: Copied | undefined };

/**
 * Refuses to archive or end quests of adventures that go on.
 * @returns the changes that are not refused
 * @throws DomainError CONFLICT IN_USE
 */
const withoutItems = async (
  work: Work,
  projectId: string,
  { changes, copied }: Ending,
): Promise<ConfigChange[]> => {
  const keys = changes.filter(isQuest).map(({ key }) => key);
  const adventures = keys.length > 0 ? await adventuresOf(work, projectId, keys) : new Map();
  return changes.filter((change) => {
    const inUse = isQuest(change) ? itemInUse(adventures.get(change.key)) : undefined;
    if (inUse) skipOrThrow(inUse, change, copied);
    return !inUse;
  });
};

const MOVED: Readonly<Record<Phase, string>> = { RUNNING: "resumed", PAUSED: "paused", ENDED: "ended" };

/** What becomes of definitions once all that is new is there, and rules are in their final state. */
type Rest = {
  wanted: readonly WantedDefinition[];
  archived: readonly ConfigChange[];
  copied?: Copied | undefined;
};

/**
 * Makes quests and adventures run, pause or end as a document says, and archives definitions as
 * `archiveDefinition` does.
 * @throws DomainError CONFLICT: IN_USE, prefixed by section and key
 */
export const finishDefinitions = async (
  work: Work,
  projectId: string,
  { wanted, archived, copied }: Rest,
): Promise<void> => {
  const unnamed =
    archived.length > 0 ? await withoutNamed(work, projectId, { changes: archived, copied }) : [];
  for (const areQuests of [false, true]) {
    const phased = wanted.filter(({ change, phase }) => phase && isQuest(change) === areQuests);
    await importPhases(work, projectId, { wanted: phased, copied });
    const changes = unnamed.filter((change) => isQuest(change) === areQuests);
    await archiveDefinitions(work, projectId, { changes, copied });
  }
};

/** Refuses to archive what rules name, as `withoutItems` does. */
const withoutNamed = async (
  work: Work,
  projectId: string,
  { changes, copied }: Ending,
): Promise<ConfigChange[]> => {
  const refuse = await createInUse(work, projectId);
  const unnamed: ConfigChange[] = [];
  for (const change of changes)
    if (await naming(change, () => refuse(named(change)), copied)) unnamed.push(change);
  return unnamed;
};

const isEnding = ({ change: { action, fields }, phase }: WantedDefinition): boolean =>
  action === "UPDATE" && phase === "ENDED" && fields.includes("status");

const importPhases = async (
  work: Work,
  projectId: string,
  { wanted, copied }: Omit<Rest, "archived">,
): Promise<void> => {
  const ending = wanted.filter(isEnding).map(({ change }) => change);
  const ended = new Set(await withoutItems(work, projectId, { changes: ending, copied }));
  const phased = wanted.flatMap((one) =>
    isEnding(one) && !ended.has(one.change) ? [] : [{ ...named(one.change), phase: one.phase! }],
  );
  const moved = await movePhases(work, projectId, phased);
  await followStopped(
    work,
    projectId,
    moved.filter(({ phase }) => phase === "ENDED"),
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

const archiveDefinitions = async (work: Work, projectId: string, ending: Ending): Promise<void> => {
  const rows = (await withoutItems(work, projectId, ending)).map(named);
  if (rows.length === 0) return;
  const found = await sql<{ id: string; kind: string; key: string }>`
    update definitions d set status = 'ARCHIVED', pauses = ${pausesOfArchived()},
      updated_at = ${work.now.toISOString()}::timestamptz
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(kind text, key text)
    where d.project_id = ${projectId} and d.kind = r.kind and d.key = r.key and d.status <> 'ARCHIVED'
    returning d.id, d.kind, d.key`.execute(work.db);
  await followStopped(work, projectId, found.rows);
  const audited = found.rows.map(({ id, kind, key }) => {
    return { action: `${kind}.archived`, definition: { projectId, id, key } };
  });
  await auditDefinitions(work, audited);
};
