import { defineEntity, LockMode, p, UniqueConstraintViolationException } from "@mikro-orm/core";
import { sql } from "kysely";
import { z } from "zod";
import { auditDefinition } from "../../accounts/audit/audit.ts";
import { refuseInUse } from "./references.ts";
import { changeRunning, checkSize } from "./running.ts";
import type { Defined, Pause, Phase } from "../../evaluation/live.ts";
import type { Caller } from "../../kernel/caller.ts";
import { conflict, invalid, notFound } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { isId, newId } from "../../kernel/ids.ts";
import { DEFINITION_MAX_BYTES } from "../../kernel/limits.ts";
import { boundBytes } from "../../kernel/hostile-json.ts";
import type { RowOf } from "../../kernel/json.ts";
import {
  entityOrder,
  offsetOf,
  orderBy,
  type Ordered,
  type PageQuery,
  type SortOf,
} from "../../kernel/paging.ts";
import { containing } from "../../kernel/db.ts";
import { changeConfig, readCounted, type Work } from "../../kernel/work.ts";
import { type Outcome, together } from "../../kernel/together.ts";

/** A definition of a project: `ref` is its UUID or key. */
export type DefinitionName = { projectId: string; kind: string; ref: string };

/**
 * As `getDefinition`, together with the others who share the transaction; the result is for reading alone.
 * @throws DomainError NOT_FOUND
 */
export const readDefinition = together({
  phase: "READS",
  isWrite: false,
  run: async ({ em }, names: readonly DefinitionName[]) => {
    const refs = [...new Set(names.map(({ ref }) => ref))];
    const ids = refs.filter(isId).map((ref) => ref.toLowerCase());
    const kinds = [...new Set(names.map(({ kind }) => kind))];
    const found = await em.find(
      Definition,
      {
        projectId: names[0]!.projectId,
        kind: { $in: kinds },
        $or: [{ key: { $in: refs } }, ...(ids.length > 0 ? [{ id: { $in: ids } }] : [])],
      },
      { disableIdentityMap: true },
    );
    return names.map(({ kind, ref }): Outcome<Definition> => {
      const ofKind = found.filter((one) => one.kind === kind);
      const value =
        ofKind.find(({ id }) => id === ref.toLowerCase()) ?? ofKind.find(({ key }) => key === ref);
      return value ? { value } : { error: notFound(kind) };
    });
  },
});

/**
 * A project's economy definitions of every kind (registries/definition-kinds.ts): one table, since all need the
 * same operations, and name one another by key.
 */
const DefinitionSchema = defineEntity({
  name: "Definition",
  tableName: "definitions",
  properties: {
    id: p.uuid().primary(),
    projectId: p.uuid(),
    kind: p.text(),
    key: p.text(),
    name: p.text(),
    definition: p.json<Json>(),
    /** DRAFT: of a kind with drafts, and never published. */
    status: p.text().$type<"ACTIVE" | "ARCHIVED" | "DRAFT">(),
    version: p.integer(),
    /** Of kinds with drafts: edits that are not published yet. */
    draft: p.json<Json>().nullable(),
    draftVersion: p.integer().default(1),
    phase: p.text().$type<Phase>().nullable(),
    endedAt: p.datetime(3).nullable(),
    /** Of kinds with drafts: when it did not run, oldest first. */
    pauses: p.json<Pause[]>().nullable(),
    createdBy: p.text(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
  },
});
export class Definition extends DefinitionSchema.class {}
DefinitionSchema.setClass(Definition);

/** Converts a definition to its API form: its fields, plus the columns common to all definitions. */
export const showDefinition = ({
  id,
  definition,
  status,
  version,
  createdAt,
  updatedAt,
}: Definition): Json => ({
  ...definition,
  id,
  status,
  version,
  createdAt: createdAt.toISOString(),
  updatedAt: updatedAt.toISOString(),
});

/**
 * A kind of definition: currencies, badges and so on. All kinds share one table, one set of operations and
 * one form of export and import; add one by a `kind.ts` in its feature's folder and a line in
 * `registries/definition-kinds.ts`.
 */
export type DefinitionKind<D extends Defined = Defined> = {
  /** Singular, as in audit actions: `badge`. */
  kind: string;
  /** Plural, as in paths and in exported documents: `badges`. */
  plural: string;
  /** Heading in the documentation: `Badges`. */
  tag: string;
  /** Schema of the whole definition, which fills in defaults. */
  schema: z.ZodType<D>;
  /** The same without its limit in bytes. */
  unbounded: z.ZodType<D>;
  /** One for the API reference; default: made from the schema. */
  example?: Json;
  /** Required fields, from which the schema of a partial change is derived. */
  shape: z.ZodObject;
  /** Maximum number of one project's definitions that are not archived. */
  max: number;
  /**
   * Refuses what the schema cannot check: unknown names, and changes that would invalidate players' holdings.
   * `before` is the replaced definition. @throws DomainError VALIDATION_ERROR, CONFLICT
   */
  check?(work: Work, projectId: string, definition: D, before: D | undefined): Promise<void>;
  /** Follows definitions that were ended or archived, by their keys: what players wait for never comes. */
  stopped?(work: Work, projectId: string, keys: readonly string[]): Promise<void>;
  /** Whether it is written as a draft and runs once it is published: it has operations of its own. */
  hasDrafts?: true;
  /** Fields that are shown but not stored: current counts. */
  extra?: {
    shape: z.ZodRawShape;
    /** Reads the fields of several definitions, by key, in one statement. */
    read(work: Work, projectId: string, keys: readonly string[]): Promise<Map<string, Json>>;
  };
};

/** Defines a kind whose documents are limited in bytes. */
export const definitionKind = <D extends Defined>(
  kind: Omit<DefinitionKind<D>, "unbounded">,
): DefinitionKind<D> => ({
  ...kind,
  unbounded: kind.schema,
  schema: boundBytes(kind.schema, DEFINITION_MAX_BYTES),
});

/** A step of a quest as far as it has secrets; stored ones may be of an earlier version of the service. */
type Step = Json & { key?: string; kind?: string; codeHashes?: unknown; questions?: Json[] };

const stepsOf = (document: Json): Step[] | undefined =>
  Array.isArray(document["steps"]) ? (document["steps"] as Step[]) : undefined;

const withSteps = (document: Json, change: (step: Step) => Step): Json => {
  const steps = stepsOf(document);
  return steps ? { ...document, steps: steps.map(change) } : document;
};

const withoutCodes = ({ codeHashes: _secret, ...step }: Step): Step => step;

const withoutAnswers = (step: Step): Step =>
  Array.isArray(step.questions)
    ? { ...step, questions: step.questions.map(({ correct: _secret, ...question }) => question) }
    : step;

/** Returns a definition without what no answer shows: the hashes of codes of quests. */
export const withoutSecrets = (kind: string, document: Json): Json =>
  kind === "quest" ? withSteps(document, withoutCodes) : document;

/**
 * Whether a caller may see the answers of quizzes: who may write quests, and the team. Keys that only read
 * may be those of a client.
 */
const seesAnswers = (caller: Caller | undefined): boolean =>
  caller === undefined || caller.kind !== "key" || caller.scopes.includes("quests:manage");

/** As `withoutSecrets`, and without the answers of quizzes where the caller does not write quests. */
export const shownTo = (caller: Caller | undefined, kind: string, document: Json): Json => {
  const shown = withoutSecrets(kind, document);
  return kind !== "quest" || seesAnswers(caller) ? shown : withSteps(shown, withoutAnswers);
};

/** Returns a definition with the secrets that it leaves out, as far as another of the same key has them. */
export const withSecretsOf = <D extends Json>(kind: string, document: D, before: Json | undefined): D => {
  if (kind !== "quest" || !before) return document;
  const known = new Map((stepsOf(before) ?? []).map((step) => [step.key, step]));
  return withSteps(document, (step) => {
    const own = known.get(step?.key);
    const isLeftOut =
      step?.kind === "CODE" && step.codeHashes === undefined && step["perPlayerCodes"] !== true;
    return isLeftOut && own?.codeHashes !== undefined ? { ...step, codeHashes: own.codeHashes } : step;
  }) as D;
};

/** A published version as the API shows it. */
export const ShownVersion = z.object({
  version: z.int(),
  definition: z.record(z.string(), z.unknown()),
  publishedAt: z.iso.datetime(),
  isPublished: z.boolean().meta({ description: "The one that runs" }),
});
export type ShownVersion = z.output<typeof ShownVersion>;

type Owner = Pick<Definition, "id" | "projectId" | "kind" | "version">;
type Row = Omit<RowOf<ShownVersion>, "isPublished"> & { total: number };

/** Orders of the list. */
export const VERSION_ORDERS = { by: { version: sql`version` }, usual: "desc" } as const;

/** Lists the versions of a definition. */
export const listVersions = async (
  work: Work,
  { id, projectId, kind, version: current }: Owner,
  query: PageQuery & Ordered<SortOf<typeof VERSION_ORDERS>>,
): Promise<{ versions: ShownVersion[]; total: number }> => {
  const { rows, total } = await readCounted(
    work,
    (rest) => sql<Row>`
      select version, definition, published_at as "publishedAt", count(*) over () as total from definition_versions
      where project_id = ${projectId} and definition_id = ${id} ${rest}`,
    sql`order by ${orderBy(VERSION_ORDERS, query, sql`version`)} limit ${query.limit} offset ${offsetOf(query)}`,
  );
  const versions = rows.map(({ version, definition, publishedAt }) => ({
    version,
    definition: shownTo(work.by?.caller, kind, definition),
    publishedAt: publishedAt.toISOString(),
    isPublished: version === current,
  }));
  return { versions, total };
};

/** @throws DomainError NOT_FOUND */
export const readVersion = async (
  { db }: Work,
  { id, projectId }: Pick<Owner, "id" | "projectId">,
  version: number,
): Promise<{ definition: Json }> => {
  const { rows } = await sql<{ definition: Json }>`
    select definition from definition_versions
    where project_id = ${projectId} and definition_id = ${id} and version = ${version}::bigint`.execute(db);
  if (!rows[0]) throw notFound(`version ${version}`);
  return rows[0];
};

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
  checkSize(kind.kind, definition);
  await refuseTaken(work, { projectId, kind: kind.kind, key: definition.key });
  await checkRoom(work, projectId, kind);
  await kind.check?.(work, projectId, definition, undefined);
  const made = { projectId, kind: kind.kind, definition, createdBy, status: "ACTIVE", version: 1 } as const;
  return insertDefinition(work, made);
};

/** @throws DomainError CONFLICT KEY_TAKEN */
export const refuseTaken = async (
  { em }: Work,
  where: { projectId: string; kind: string; key: string },
): Promise<void> => {
  if ((await em.count(Definition, where)) > 0) throw keyTaken(where.key);
};

type NewDefinition = Pick<Definition, "projectId" | "kind" | "createdBy" | "status" | "version"> & {
  definition: Defined;
};

/** @throws DomainError CONFLICT KEY_TAKEN where another transaction has just taken the key */
export const insertDefinition = async ({ em, now }: Work, given: NewDefinition): Promise<Definition> => {
  const { key, name } = given.definition;
  const created = em.create(Definition, {
    id: newId(),
    key,
    name,
    draftVersion: 1,
    ...given,
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

/** @param made number of counted definitions for which there has to be room @throws DEFINITION_LIMIT */
export const checkRoom = async <D extends Defined>(
  { em }: Work,
  projectId: string,
  kind: DefinitionKind<D>,
  made = 0,
): Promise<void> => {
  const active = await em.count(Definition, { projectId, kind: kind.kind, status: "ACTIVE" });
  const all = await em.count(Definition, { projectId, kind: kind.kind });
  refuseFull(kind, { active: active - made, all: all - made });
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

const findDefinition = async (
  { em }: Work,
  { projectId, kind, ref }: DefinitionName,
  options: { lockMode?: LockMode } = {},
): Promise<Definition | null> => {
  const where = { projectId, kind };
  const byId = isId(ref) ? await em.findOne(Definition, { ...where, id: ref }, options) : null;
  return byId ?? em.findOne(Definition, { ...where, key: ref }, options);
};

/** Locks a definition until the commit. @throws DomainError NOT_FOUND */
export const lockDefinition = async (work: Work, name: DefinitionName): Promise<Definition> => {
  const found = await findDefinition(work, name, { lockMode: LockMode.PESSIMISTIC_WRITE });
  if (!found) throw notFound(name.kind);
  return found;
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

type ListDefinitions = PageQuery &
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
type DefinitionPatch = { version?: number | undefined; changes: Json };

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
  const definition = parseChanged(kind, { ...found.definition, ...changes });
  await kind.check?.(work, projectId, definition, found.definition as unknown as D);
  await changeRunning(work, { projectId, reason: "DEFINITION_LIMIT" }, async () => {
    replaceDefinition(found, definition, work.now);
    await work.em.flush();
  });
  await auditDefinition(work, `${kind.kind}.updated`, found);
  return found;
};

/** Parses a changed document, from which null has removed fields. @throws DomainError VALIDATION_ERROR */
export const parseChanged = <D extends Defined>({ kind, schema }: DefinitionKind<D>, changed: Json): D => {
  const kept = Object.entries(changed).filter(([, value]) => value !== null && value !== undefined);
  const given = Object.fromEntries(kept);
  checkSize(kind, given);
  const definition = schema.parse(given);
  checkSize(kind, definition);
  return definition;
};

/** Replaces a definition's document, and drops its unpublished edits: they were of another one. */
const replaceDefinition = (found: Definition, definition: Defined, now: Date): void => {
  found.definition = definition;
  found.draft = null;
  found.draftVersion++;
  found.name = definition.name;
  found.version++;
  found.updatedAt = now;
};

const lockActive = async (work: Work, name: DefinitionName): Promise<Definition> => {
  const found = await lockDefinition(work, name);
  if (found.status === "ARCHIVED") throw conflict("INVALID_STATE", `the ${name.kind} is archived`);
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
