import { sql } from "kysely";
import type { Stored } from "../../evaluation/live.ts";
import { conflict, DomainError } from "../../kernel/errors.ts";
import { localKey, type Work } from "../../kernel/work.ts";
import { loadDefinitions, loadPublished } from "../../progression/load-plan.ts";
import { mentionsOf } from "../../evaluation/language/document.ts";
import { mapInSlices } from "../../kernel/slices.ts";

/** A project's definitions that are not archived, by kind and key. */
export class ProjectDefinitions {
  readonly #byKind = new Map<string, Map<string, Stored>>();

  constructor(definitions: ReadonlyMap<string, readonly Stored[]>) {
    for (const [kind, ofKind] of definitions) for (const stored of ofKind) this.put(kind, stored);
  }

  get(kind: string, key: string): Stored | undefined {
    return this.#byKind.get(kind)?.get(key);
  }

  /** Adds a definition, or replaces the one with its key. */
  put(kind: string, stored: Stored): void {
    const ofKind = this.#byKind.get(kind) ?? new Map<string, Stored>();
    this.#byKind.set(kind, ofKind);
    ofKind.set(stored.definition.key, stored);
  }

  all(kind: string): Stored[] {
    return [...(this.#byKind.get(kind)?.values() ?? [])];
  }

  /** Returns all definitions by kind, in the form of `loadDefinitions`. */
  byKind(): Map<string, Stored[]> {
    return new Map([...this.#byKind.keys()].map((kind) => [kind, this.all(kind)]));
  }
}

/** The definitions that the transaction's checks read instead of the tables, by project. */
const SHARED = localKey("shared definitions", () => new Map<string, ProjectDefinitions>());

export const loadProjectDefinitions = async (work: Work, projectId: string): Promise<ProjectDefinitions> =>
  new ProjectDefinitions(await loadDefinitions(work, projectId));

/**
 * Reads a project's definitions once for all checks of a transaction that changes many of them. Must be
 * called under the exclusive config lock. From then on the caller adds each change to them: checks read them
 * and not the tables.
 */
export const shareDefinitions = async (work: Work, projectId: string): Promise<ProjectDefinitions> => {
  const definitions = await loadProjectDefinitions(work, projectId);
  work.local.get(SHARED).set(projectId, definitions);
  return definitions;
};

/** Returns the definitions that this transaction shares; undefined when its checks read the tables. */
export const sharedDefinitions = ({ local }: Work, projectId: string): ProjectDefinitions | undefined =>
  local.get(SHARED).get(projectId);

/** Makes checks read the tables again. */
export const unshareDefinitions = ({ local }: Work, projectId: string): void =>
  void local.get(SHARED).delete(projectId);

/** Reason of a 400 for an unknown name: an import retries such a definition later. */
export const UNKNOWN_REFERENCE = "UNKNOWN_REFERENCE";

/** A definition that `field` of a request names by its key. */
export type Reference = { field: string; kind: string; key: string };

/** A 400 for unknown names; it reports the first of them. */
export class UnknownReference extends DomainError {
  readonly missing: readonly Reference[];

  constructor(missing: readonly [Reference, ...Reference[]]) {
    const [{ field, kind, key }] = missing;
    const isDrafted = kind === "quest" || kind === "adventure";
    const message = `there is no ${isDrafted ? "published " : ""}${kind} ${key}`;
    super("VALIDATION_ERROR", `${field}: ${message}`, {
      details: [{ field, message }],
      reason: UNKNOWN_REFERENCE,
    });
    this.missing = missing;
  }
}

/** Whether the project has such a definition that is not archived. */
export const isActiveKey = async (
  work: Work,
  projectId: string,
  { kind, key }: Pick<Reference, "kind" | "key">,
): Promise<boolean> => {
  const definitions = sharedDefinitions(work, projectId);
  if (definitions) return definitions.get(kind, key) !== undefined;
  const found = await sql`
    select 1 from definitions
    where project_id = ${projectId} and kind = ${kind} and key = ${key} and status = 'ACTIVE'`.execute(
    work.db,
  );
  return found.rows.length > 0;
};

/** Refuses names of what is not there. @throws UnknownReference */
export const checkNamed = async (
  names: readonly Reference[],
  isThere: (name: Reference) => boolean | Promise<boolean>,
): Promise<void> => {
  const missing: Reference[] = [];
  const known = new Set<string>();
  for (const name of names) {
    const { kind, key } = name;
    if (known.has(`${kind} ${key}`)) continue;
    if (await isThere(name)) known.add(`${kind} ${key}`);
    else missing.push(name);
  }
  const [first, ...others] = missing;
  if (first) throw new UnknownReference([first, ...others]);
};

/** Returns the segments that an audience names. */
export const namesOfAudience = (audience: { segmentKeys: readonly string[] } | undefined) =>
  (audience?.segmentKeys ?? []).map((key, i) => ({
    field: `audience.segmentKeys.${i}`,
    kind: "segment" as const,
    key,
  }));

/** @throws UnknownReference naming the field when the project has no such definition */
export const checkActiveKey = async (work: Work, projectId: string, reference: Reference): Promise<void> => {
  if (!(await isActiveKey(work, projectId, reference))) throw new UnknownReference([reference]);
};

/** Maximum number of rules named in the message. */
const NAMED_MAX = 5;

/** A definition by its kind and key; a DRAFT is named by nothing that is published. */
type DefinitionName = { kind: string; key: string; status?: string };

/**
 * Refuses to archive a definition that running rules still name: they would fail or do nothing, unnoticed.
 * @throws DomainError CONFLICT: IN_USE, naming the rules
 */
export const refuseInUse = async (
  work: Work,
  projectId: string,
  definition: DefinitionName,
): Promise<void> => {
  (await createInUse(work, projectId))(definition);
  if (definition.status !== "DRAFT") await refuseItem(work, projectId, definition);
};

/**
 * Refuses to stop a quest of an adventure that has not ended: nobody could complete it any more.
 * @throws DomainError CONFLICT: IN_USE, naming the adventures
 */
export const refuseItem = async (
  work: Work,
  projectId: string,
  { kind, key }: DefinitionName,
): Promise<void> => {
  const adventures = kind === "quest" ? await adventuresOf(work, projectId, [key]) : new Map();
  const inUse = itemInUse(adventures.get(key));
  if (inUse) throw inUse;
};

/** Returns the error that a quest is an item of adventures that have not ended; undefined without any. */
export const itemInUse = (adventures: readonly string[] | undefined): Error | undefined => {
  if (!adventures) return undefined;
  const named = adventures.slice(0, NAMED_MAX).join(", ");
  return conflict("IN_USE", `adventures have it as an item: ${named}; end or change them first`);
};

/** Reads the adventures that have not ended of which quests are items, by key of the quest. */
export const adventuresOf = async (
  { db, now }: Work,
  projectId: string,
  questKeys: readonly string[],
): Promise<Map<string, string[]>> => {
  const { rows } = await sql<{ quest: string; keys: string[] }>`
    select i ->> 'questKey' as quest, json_agg(d.key order by d.key) as keys
    from definitions d cross join lateral jsonb_array_elements(d.definition -> 'items') i
    where d.project_id = ${projectId} and d.kind = 'adventure' and d.status = 'ACTIVE'
      and d.phase <> 'ENDED'
      and (d.definition ->> 'endsAt')::timestamptz > ${now.toISOString()}::timestamptz
      and i ->> 'questKey' in (select jsonb_array_elements_text(${JSON.stringify(questKeys)}::jsonb))
    group by 1`.execute(db);
  return new Map(rows.map(({ quest, keys }) => [quest, keys]));
};

/** Like `refuseInUse` for many definitions, reading the rules once. */
export const createInUse = async (
  work: Work,
  projectId: string,
): Promise<(definition: DefinitionName) => void> => {
  const users = new Map<string, Set<string>>();
  await mapInSlices(await loadPublished(work, projectId), (rule) => {
    for (const { kind, key } of mentionsOf(rule.definition)) {
      const name = `${kind} ${key}`;
      users.set(name, (users.get(name) ?? new Set()).add(rule.key));
    }
  });
  return ({ kind, key }) => {
    const rules = [...(users.get(`${kind} ${key}`) ?? [])];
    if (rules.length === 0) return;
    const more = rules.length > NAMED_MAX ? ` and ${rules.length - NAMED_MAX} more` : "";
    const named = rules.slice(0, NAMED_MAX).join(", ");
    throw conflict("IN_USE", `rules name it: ${named}${more}; pause or change them first`);
  };
};
