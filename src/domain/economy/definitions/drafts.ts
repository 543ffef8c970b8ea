import { auditDefinition } from "../../accounts/audit/audit.ts";
import { KEY_MAX } from "../../evaluation/language/syntax.ts";
import { type Defined, withoutLasting, withPause } from "../../evaluation/live.ts";
import { changeConfig, lockRoom, readCounted, type Work } from "../../kernel/work.ts";
import { conflict, invalid } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";
import { refuseInUse, refuseItem } from "./references.ts";
import {
  ARCHIVED_FACTOR,
  Definition,
  type DefinitionKind,
  insertDefinition,
  lockDefinition,
  parseChanged,
  readVersion,
  refuseFull,
  refuseTaken,
  shownTo,
  withSecretsOf,
} from "./definitions.ts";
import { changeRunning, checkSize } from "./running.ts";
import { type RawBuilder, sql } from "kysely";
import { containing } from "../../kernel/db.ts";
import { offsetOf, orderBy, type Ordered, type Orders, type PageQuery } from "../../kernel/paging.ts";

/** Status of a definition of a kind with drafts; SCHEDULED and the end of ACTIVE follow from the clock. */
export const DRAFT_STATUSES = ["DRAFT", "SCHEDULED", "ACTIVE", "PAUSED", "ENDED", "ARCHIVED"] as const;
type DraftStatus = (typeof DRAFT_STATUSES)[number];

/** Returns the status of a definition at a moment. */
export const draftStatusOf = ({ status, phase, definition }: Definition, now: Date): DraftStatus => {
  if (status !== "ACTIVE") return status;
  if (phase === "ENDED" || phase === "PAUSED") return phase;
  const times = definition as Record<string, string | undefined>;
  const [from, until] = [
    times["availableFrom"] ?? times["startsAt"],
    times["availableUntil"] ?? times["endsAt"],
  ];
  if (until !== undefined && Date.parse(until) <= now.getTime()) return "ENDED";
  return from !== undefined && Date.parse(from) > now.getTime() ? "SCHEDULED" : "ACTIVE";
};

/** Returns the document that a change begins with: unpublished edits, or what is published. */
export const draftOf = ({ draft, definition }: Definition): Json => draft ?? definition;

/** Returns the API form: the draft's fields, what is published, and the columns; without secrets. */
export const showDraft = (found: Definition, { now, by }: Pick<Work, "now" | "by">): Json => ({
  ...shownTo(by?.caller, found.kind, draftOf(found)),
  id: found.id,
  status: draftStatusOf(found, now),
  draftVersion: found.draftVersion,
  publishedVersion: found.version === 0 ? null : found.version,
  published: found.version === 0 ? null : shownTo(by?.caller, found.kind, found.definition),
  createdAt: found.createdAt.toISOString(),
  updatedAt: found.updatedAt.toISOString(),
});

type Kind<D extends Defined> = DefinitionKind<D>;
/** `ref`: the UUID or the key. */
type Ref = { projectId: string; ref: string };

/** As `lockDefinition`, for changes of what runs. */
const lockToRun = async (work: Work, kind: string, ref: Ref): Promise<Definition> => {
  await changeConfig(work, ref.projectId);
  return lockDefinition(work, { kind, ...ref });
};

const refuseState = (kind: string, is: string): Error => conflict("INVALID_STATE", `the ${kind} is ${is}`);

const orOf = (words: readonly string[]): string =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;

/**
 * Creates a draft, which runs once it is published.
 * @throws DomainError CONFLICT: KEY_TAKEN, DEFINITION_LIMIT; VALIDATION_ERROR
 */
export const createDraft = async <D extends Defined>(
  work: Work,
  kind: Kind<D>,
  { projectId, definition, createdBy }: { projectId: string; definition: D; createdBy: string },
): Promise<Definition> => {
  checkSize(kind.kind, definition);
  await lockRoom(work, projectId, "drafts");
  const where = { projectId, kind: kind.kind };
  await refuseTaken(work, { ...where, key: definition.key });
  refuseFull(kind, { active: 0, all: await work.em.count(Definition, where) });
  const made = { ...where, definition, createdBy, status: "DRAFT", version: 0 } as const;
  const created = await insertDefinition(work, made);
  await auditDefinition(work, `${kind.kind}.created`, created);
  return created;
};

/** Fields to change; null removes an optional one. */
type DraftPatch = { draftVersion?: number | undefined; changes: Json };

/**
 * Edits a draft; what runs stays as it is until the draft is published.
 * @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE, VERSION_CONFLICT; VALIDATION_ERROR
 */
export const patchDraft = async <D extends Defined>(
  work: Work,
  kind: Kind<D>,
  { draftVersion, changes, ...ref }: DraftPatch & Ref,
): Promise<Definition> => {
  const found = await lockDefinition(work, { kind: kind.kind, ...ref });
  if (found.status === "ARCHIVED") throw refuseState(kind.kind, "archived");
  if (draftVersion !== undefined && draftVersion !== found.draftVersion)
    throw conflict("VERSION_CONFLICT", `the draft's version is ${found.draftVersion} by now`);
  if (changes["key"] !== undefined && changes["key"] !== found.key)
    throw invalid("key", "cannot change: players' progress refers to it");
  const before = draftOf(found);
  const draft = parseChanged(kind, withSecretsOf(kind.kind, { ...before, ...changes }, before));
  if (found.status === "DRAFT") Object.assign(found, { definition: draft, name: draft.name });
  else found.draft = draft;
  found.draftVersion++;
  found.updatedAt = work.now;
  await work.em.flush();
  await auditDefinition(work, `${kind.kind}.updated`, found);
  return found;
};

/**
 * Publishes a document as the next version, effective from the next batch of events.
 * @throws DomainError CONFLICT: INVALID_STATE, DEFINITION_LIMIT; VALIDATION_ERROR, also RULE_LOOP
 */
const publish = async <D extends Defined>(
  work: Work,
  kind: Kind<D>,
  found: Definition,
  document: Json,
): Promise<Definition> => {
  const { projectId } = found;
  if (found.status === "ARCHIVED") throw refuseState(kind.kind, "archived");
  const definition = kind.schema.parse(document);
  const before = found.version === 0 ? undefined : (found.definition as unknown as D);
  if (found.status === "DRAFT") {
    const where = { projectId, kind: kind.kind };
    const active = await work.em.count(Definition, { ...where, status: "ACTIVE" });
    const all = await work.em.count(Definition, where);
    refuseFull(kind, { active, all: Math.min(all - 1, kind.max * ARCHIVED_FACTOR - 1) });
  }
  await kind.check?.(work, projectId, definition, before);
  await changeRunning(work, { projectId, reason: "DEFINITION_LIMIT" }, async () => {
    const published = { status: "ACTIVE", phase: "RUNNING", endedAt: null, draft: null } as const;
    const next = { version: found.version + 1, pauses: resumed(found) };
    Object.assign(found, { definition, name: definition.name, updatedAt: work.now, ...published, ...next });
    await work.em.flush();
  });
  await auditDefinition(work, `${kind.kind}.published`, found);
  return found;
};

/** Publishes the draft; without edits, what is published is published anew. */
export const publishDraft = async <D extends Defined>(
  work: Work,
  kind: Kind<D>,
  ref: Ref,
): Promise<Definition> => {
  const found = await lockToRun(work, kind.kind, ref);
  return publish(work, kind, found, draftOf(found));
};

/** Publishes an earlier version as the next one; unpublished edits are dropped. */
export const rollbackDraft = async <D extends Defined>(
  work: Work,
  kind: Kind<D>,
  { version, ...ref }: Ref & { version: number },
): Promise<Definition> => {
  const found = await lockToRun(work, kind.kind, ref);
  const { definition } = await readVersion(work, found, version);
  found.draftVersion++;
  return publish(work, kind, found, definition);
};

/** To be called once batches wait: ids that are made later are of events that are evaluated later. */
const resumed = ({ pauses }: Definition): Definition["pauses"] => pauses && withoutLasting(pauses, newId());

/** Changes of what is published: from which statuses, and to which phase. */
const MOVES = {
  pause: { from: ["ACTIVE", "SCHEDULED"], phase: "PAUSED", action: "paused" },
  resume: { from: ["PAUSED"], phase: "RUNNING", action: "resumed" },
  end: { from: ["ACTIVE", "SCHEDULED", "PAUSED"], phase: "ENDED", action: "ended" },
} as const;

/**
 * Pauses, resumes or ends what is published.
 * @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE, IN_USE by an adventure
 */
export const moveDraft = async <D extends Defined>(
  work: Work,
  kind: Kind<D>,
  { move, ...ref }: Ref & { move: keyof typeof MOVES },
): Promise<Definition> => {
  const found = await lockToRun(work, kind.kind, ref);
  const { from, phase, action } = MOVES[move];
  const status = draftStatusOf(found, work.now);
  if (!(from as readonly string[]).includes(status))
    throw refuseState(kind.kind, `${status}; only one that is ${orOf(from)} can be ${action}`);
  if (phase === "ENDED") await refuseItem(work, ref.projectId, found);
  const isEnd = phase === "ENDED";
  const pauses =
    phase === "RUNNING" ? resumed(found) : withPause(found.pauses ?? [], { from: newId(), isEnd });
  Object.assign(found, { phase, pauses, endedAt: isEnd ? work.now : null, updatedAt: work.now });
  await work.em.flush();
  if (phase === "ENDED") await kind.stopped?.(work, ref.projectId, [found.key]);
  await auditDefinition(work, `${kind.kind}.${action}`, found);
  return found;
};

/** Archives a definition that does not run. @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE, IN_USE */
export const archiveDraft = async <D extends Defined>(
  work: Work,
  kind: Kind<D>,
  ref: Ref,
): Promise<Definition> => {
  const found = await lockToRun(work, kind.kind, ref);
  const status = draftStatusOf(found, work.now);
  if (status !== "DRAFT" && status !== "ENDED" && status !== "PAUSED")
    throw refuseState(kind.kind, `${status}; pause or end it first`);
  await refuseInUse(work, ref.projectId, found);
  Object.assign(found, { status: "ARCHIVED", updatedAt: work.now });
  await work.em.flush();
  if (status !== "DRAFT") await kind.stopped?.(work, ref.projectId, [found.key]);
  await auditDefinition(work, `${kind.kind}.archived`, found);
  return found;
};

const COPIES_TRIED = 100;

/** Returns a free key: the definition's own with `-copy`, `-copy-2` and so on. */
const freeKey = async ({ em }: Work, { projectId, kind, key }: Definition): Promise<string> => {
  const candidates = Array.from({ length: COPIES_TRIED }, (_, i) => {
    const ending = i === 0 ? "-copy" : `-copy-${i + 1}`;
    return `${key.slice(0, KEY_MAX - ending.length)}${ending}`;
  });
  const taken = await em.find(Definition, { projectId, kind, key: { $in: candidates } }, { fields: ["key"] });
  const names = new Set(taken.map((one) => one.key));
  const free = candidates.find((candidate) => !names.has(candidate));
  if (free === undefined)
    throw conflict("KEY_TAKEN", `there are ${COPIES_TRIED} copies; give this one a key`);
  return free;
};

/** Creates a draft from the draft of another, archived ones included. */
export const duplicateDraft = async <D extends Defined>(
  work: Work,
  kind: Kind<D>,
  {
    key,
    name,
    createdBy,
    ...ref
  }: Ref & { key?: string | undefined; name?: string | undefined; createdBy: string },
): Promise<Definition> => {
  const found = await lockDefinition(work, { kind: kind.kind, ...ref });
  const ownName = name ?? `${found.name.slice(0, 90)} (copy)`;
  const copy = {
    ...structuredClone(draftOf(found)),
    key: key ?? (await freeKey(work, found)),
    name: ownName,
  };
  return createDraft(work, kind, {
    projectId: ref.projectId,
    definition: kind.schema.parse(copy),
    createdBy,
  });
};

/** A definition as it is shown: with its unpublished edits. */
export const DOCUMENT = sql`coalesce(draft, definition)`;

/** Orders that lists of all kinds with drafts have. */
export const DRAFT_ORDERS = {
  sortOrder: sql`(${DOCUMENT} ->> 'sortOrder')::int`,
  key: sql`key`,
  name: sql`${DOCUMENT} ->> 'name'`,
  createdAt: sql`created_at`,
  updatedAt: sql`updated_at`,
} as const;

type DraftQuery = PageQuery & {
  /** Default: all but ARCHIVED. */
  status?: DraftStatus | undefined;
  /** Substring of the name or key, case-insensitive. */
  search?: string | undefined;
};

/** How definitions of a kind with drafts are listed; `F`: what else a query may ask for. */
export type DraftList<S extends string, F> = {
  kind: "quest" | "adventure";
  orders: Orders<S>;
  /** Fields of the definition that say when it runs. */
  span: { from: string; until: string };
  /** Returns conditions on a row; undefined ones are not asked for. */
  where(asked: F, projectId: string): (RawBuilder<unknown> | undefined)[];
};

/** Reads a page of the definitions of a kind with drafts. */
export const listDrafts = async <S extends string, F>(
  work: Work,
  projectId: string,
  query: DraftQuery & Ordered<S> & F,
  { kind, orders, span, where }: DraftList<S, F>,
): Promise<{ drafts: Definition[]; total: number }> => {
  const { status, search } = query;
  const at = sql`${work.now.toISOString()}::timestamptz`;
  // As `draftStatusOf` decides.
  const statusNow = sql`
    case when status <> 'ACTIVE' then status
      when phase in ('ENDED', 'PAUSED') then phase
      when (definition ->> ${span.until})::timestamptz <= ${at} then 'ENDED'
      when (definition ->> ${span.from})::timestamptz > ${at} then 'SCHEDULED'
      else 'ACTIVE' end`;
  const like = search === undefined ? undefined : containing(search);
  const conditions = [
    status === undefined ? sql`status <> 'ARCHIVED'` : sql`${statusNow} = ${status}`,
    like === undefined ? undefined : sql`(name ilike ${like} or key ilike ${like})`,
    ...where(query, projectId),
  ].filter((one) => one !== undefined);
  const { rows, total } = await readCounted(
    work,
    (rest) => sql<{ id: string; total: number }>`
      select id, count(*) over () as total from definitions
      where project_id = ${projectId} and kind = ${kind} and ${sql.join(conditions, sql` and `)} ${rest}`,
    sql`order by ${orderBy(orders, query, sql`key`)} limit ${query.limit} offset ${offsetOf(query)}`,
  );
  const ids = rows.map(({ id }) => id);
  const found = await work.em.find(Definition, { projectId, id: { $in: ids } }, { disableIdentityMap: true });
  const byId = new Map(found.map((one) => [one.id, one]));
  return { drafts: ids.map((id) => byId.get(id)!), total };
};
