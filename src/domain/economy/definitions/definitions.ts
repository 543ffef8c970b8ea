import { LockMode, UniqueConstraintViolationException } from "@mikro-orm/core";
import { auditDefinition } from "../../accounts/audit/definitions.ts";
import { changeConfig } from "../../kernel/config-lock.ts";
import { conflict, invalid, notFound } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { isId, newId } from "../../kernel/ids.ts";
import { offsetOf, type PageQuery } from "../../kernel/paging.ts";
import { entityOrder, type Ordered, type SortOf } from "../../kernel/sorting.ts";
import { containing } from "../../kernel/search.ts";
import type { Work } from "../../kernel/work.ts";
import { Definition } from "./definition.ts";
import { refuseInUse } from "./in-use.ts";
import type { DefinitionKind } from "./kind.ts";
import type { Defined } from "../../evaluation/live.ts";
import { changeRunning } from "./running.ts";
import { checkSize } from "./size.ts";

/**
 * Maximum number of definitions of one kind including archived ones, whose keys are kept: this many times
 * `max`.
 */
export const ARCHIVED_FACTOR = 10;

const keyTaken = (key: string) =>
  conflict("KEY_TAKEN", `the key ${key} is taken; archived definitions keep theirs`);

/**
 * Creates a definition, effective from the next batch of events.
 * @throws DomainError CONFLICT: KEY_TAKEN, DEFINITION_LIMIT; VALIDATION_ERROR, also RULE_LOOP
 */
export const createDefinition = async <D extends Defined>(
  work: Work,
  projectId: string,
  kind: DefinitionKind<D>,
  { definition, createdBy }: { definition: D; createdBy: string },
): Promise<Definition> => {
  await changeConfig(work, projectId);
  const size = { projectId, reason: "DEFINITION_LIMIT" };
  const created = await changeRunning(work, size, () =>
    addDefinition(work, projectId, kind, { definition, createdBy }),
  );
  await auditDefinition(work, `${kind.kind}.created`, created);
  return created;
};

const addDefinition = async <D extends Defined>(
  work: Work,
  projectId: string,
  kind: DefinitionKind<D>,
  { definition, createdBy }: { definition: D; createdBy: string },
): Promise<Definition> => {
  const { em, now } = work;
  const { key, name } = definition;
  checkSize(kind.kind, definition);
  if ((await em.count(Definition, { projectId, kind: kind.kind, key })) > 0) throw keyTaken(key);
  await checkRoom(work, projectId, kind);
  await kind.check?.(work, projectId, definition, undefined);
  const created = em.create(Definition, {
    id: newId(),
    projectId,
    kind: kind.kind,
    key,
    name,
    definition,
    status: "ACTIVE",
    version: 1,
    createdBy,
    createdAt: now,
    updatedAt: now,
  });
  try {
    await em.flush();
  } catch (error) {
    throw error instanceof UniqueConstraintViolationException ? keyTaken(key) : error;
  }
  return created;
};

const checkRoom = async <D extends Defined>(
  { em }: Work,
  projectId: string,
  kind: DefinitionKind<D>,
): Promise<void> => {
  const active = await em.count(Definition, { projectId, kind: kind.kind, status: "ACTIVE" });
  refuseFull(kind, { active, all: await em.count(Definition, { projectId, kind: kind.kind }) });
};

/** `active`, `all`: number of existing definitions of the kind. @throws DEFINITION_LIMIT */
export const refuseFull = <D extends Defined>(
  { plural, max }: DefinitionKind<D>,
  { active, all }: { active: number; all: number },
): void => {
  if (active < max && all < max * ARCHIVED_FACTOR) return;
  throw conflict(
    "DEFINITION_LIMIT",
    `a project may have ${max} ${plural}, and ${max * ARCHIVED_FACTOR} with archived ones`,
  );
};

/** `ref`: the UUID or the key. */
type Ref = { projectId: string; kind: string; ref: string };

const findDefinition = async (
  { em }: Work,
  { ref, ...where }: Ref,
  options: { lockMode?: LockMode } = {},
): Promise<Definition | null> => {
  const byId = isId(ref) ? await em.findOne(Definition, { ...where, id: ref }, options) : null;
  return byId ?? em.findOne(Definition, { ...where, key: ref }, options);
};

/** Returns the definition named by `{id}` in a path: the UUID or the key. @throws DomainError NOT_FOUND */
export const getDefinition = async (
  work: Work,
  projectId: string,
  { kind }: Pick<DefinitionKind, "kind">,
  ref: string,
): Promise<Definition> => {
  const found = await findDefinition(work, { projectId, kind, ref });
  if (!found) throw notFound(kind);
  return found;
};

/** Orders of the list. */
export const DEFINITION_ORDERS = {
  by: { key: "key", name: "name", createdAt: "createdAt", updatedAt: "updatedAt" },
  usual: "asc",
} as const;

export type ListDefinitions = PageQuery &
  Ordered<SortOf<typeof DEFINITION_ORDERS>> & {
    /** Default: ACTIVE. */
    status?: "ACTIVE" | "ARCHIVED" | undefined;
    /** Substring of the name or key, case-insensitive. */
    search?: string | undefined;
  };

/** Lists definitions of one kind, by key. */
export const listDefinitions = async (
  { em }: Work,
  projectId: string,
  { kind }: Pick<DefinitionKind, "kind">,
  query: ListDefinitions,
): Promise<{ definitions: Definition[]; total: number }> => {
  const like = query.search === undefined ? undefined : containing(query.search);
  const [definitions, total] = await em.findAndCount(
    Definition,
    {
      projectId,
      kind,
      status: query.status ?? "ACTIVE",
      ...(like === undefined ? {} : { $or: [{ name: { $ilike: like } }, { key: { $ilike: like } }] }),
    },
    // The unit of work would compare every document with its original, though none has changed.
    {
      orderBy: entityOrder(DEFINITION_ORDERS, query),
      limit: query.limit,
      offset: offsetOf(query),
      disableIdentityMap: true,
    },
  );
  return { definitions, total };
};

/** Fields to change; null removes an optional one. `version`: refuses the change if it differs by now. */
export type DefinitionPatch = { version?: number | undefined; changes: Json };

/**
 * Changes a definition, effective from the next batch of events.
 * @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE, VERSION_CONFLICT, DEFINITION_LIMIT;
 * VALIDATION_ERROR, also RULE_LOOP
 */
export const patchDefinition = async <D extends Defined>(
  work: Work,
  projectId: string,
  kind: DefinitionKind<D>,
  { ref, version, changes }: DefinitionPatch & { ref: string },
): Promise<Definition> => {
  await changeConfig(work, projectId);
  const found = await lockActive(work, { projectId, kind: kind.kind, ref });
  if (version !== undefined && version !== found.version) {
    throw conflict(
      "VERSION_CONFLICT",
      `the version is ${found.version} by now, the change is based on ${version}`,
    );
  }
  if (changes["key"] !== undefined && changes["key"] !== found.key)
    throw invalid("key", "cannot change: players' holdings refer to it");
  const merged = Object.entries({ ...found.definition, ...changes }).filter(
    ([, value]) => value !== null && value !== undefined,
  );
  const given = Object.fromEntries(merged);
  checkSize(kind.kind, given);
  const definition = kind.schema.parse(given);
  checkSize(kind.kind, definition);
  await kind.check?.(work, projectId, definition, found.definition as unknown as D);
  await changeRunning(work, { projectId, reason: "DEFINITION_LIMIT" }, async () => {
    replaceDefinition(found, definition, work.now);
    await work.em.flush();
  });
  await auditDefinition(work, `${kind.kind}.updated`, found);
  return found;
};

/** Replaces a definition's document. */
export const replaceDefinition = (found: Definition, definition: Defined, now: Date): void => {
  found.definition = definition;
  found.name = definition.name;
  found.version++;
  found.updatedAt = now;
};

const lockActive = async (work: Work, ref: Ref): Promise<Definition> => {
  const found = await findDefinition(work, ref, { lockMode: LockMode.PESSIMISTIC_WRITE });
  if (!found) throw notFound(ref.kind);
  if (found.status === "ARCHIVED") throw conflict("INVALID_STATE", `the ${ref.kind} is archived`);
  return found;
};

/**
 * Archives a definition: its key stays taken, and players keep what they hold of it. Only an import of a
 * configuration restores it.
 * @throws DomainError NOT_FOUND, CONFLICT: INVALID_STATE, IN_USE
 */
export const archiveDefinition = async (
  work: Work,
  projectId: string,
  { kind }: Pick<DefinitionKind, "kind">,
  ref: string,
): Promise<Definition> => {
  await changeConfig(work, projectId);
  const found = await lockActive(work, { projectId, kind, ref });
  await refuseInUse(work, projectId, found);
  found.status = "ARCHIVED";
  found.updatedAt = work.now;
  await work.em.flush();
  await auditDefinition(work, `${kind}.archived`, found);
  return found;
};
