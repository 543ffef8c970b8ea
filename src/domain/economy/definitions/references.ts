import { sql } from "kysely";
import type { Stored } from "../../evaluation/live.ts";
import { DomainError } from "../../kernel/errors.ts";
import { localKey, type Work } from "../../kernel/work.ts";
import { loadDefinitions } from "../../progression/load-plan.ts";

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
