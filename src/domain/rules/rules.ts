import { defineEntity, LockMode, p, UniqueConstraintViolationException } from "@mikro-orm/core";
import { type RawBuilder, sql } from "kysely";
import { auditDefinition } from "../accounts/audit/audit.ts";
import { checkSize, refuseLargeDraft } from "../economy/definitions/running.ts";
import {
  identifyActions,
  KeptRule,
  type RuleDocument,
  type RulePatch,
} from "../evaluation/language/document.ts";
import { patternsOf } from "../evaluation/language/patterns.ts";
import type { RuleStatus } from "../evaluation/running/outcome.ts";
import { conflict, invalid, notFound } from "../kernel/errors.ts";
import { isId, newId } from "../kernel/ids.ts";
import { RULE_MAX_BYTES } from "../kernel/limits.ts";
import { bytesOf } from "../kernel/hostile-json.ts";
import { definedOf } from "../kernel/json.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../kernel/paging.ts";
import { containing } from "../kernel/db.ts";
import { countRows, lockRoom, type Work } from "../kernel/work.ts";

const RuleSchema = defineEntity({
  name: "Rule",
  tableName: "rules",
  properties: {
    id: p.uuid().primary(),
    projectId: p.uuid(),
    key: p.text(),
    name: p.text(),
    status: p.text().$type<RuleStatus>(),
    /** Why the engine paused it: LOOP_GUARD, BUDGET, STEPS or UNFIT. */
    pauseReason: p.text().nullable(),
    /** The version that designers edit; it takes effect only by publishing. */
    draft: p.json<RuleDocument>(),
    draftVersion: p.integer(),
    publishedVersion: p.integer().nullable(),
    createdBy: p.text(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
  },
});

export class Rule extends RuleSchema.class {}

RuleSchema.setClass(Rule);

/** A published version; never changed. */
const RuleVersionSchema = defineEntity({
  name: "RuleVersion",
  tableName: "rule_versions",
  properties: {
    ruleId: p.uuid().primary(),
    version: p.integer().primary(),
    definition: p.json<RuleDocument>(),
    changeNote: p.text().nullable(),
    publishedBy: p.text(),
    publishedAt: p.datetime(3),
  },
});

export class RuleVersion extends RuleVersionSchema.class {}

RuleVersionSchema.setClass(RuleVersion);

type RuleToShow = Omit<Rule, "projectId">;

/** A rule as the API shows it; `published` is what runs while the status is ACTIVE or SHADOW. */
const showRule = (rule: RuleToShow, published: RuleDocument | null) => ({
  id: rule.id,
  key: rule.key,
  name: rule.name,
  description: rule.draft.description ?? null,
  status: rule.status,
  pauseReason: rule.pauseReason ?? null,
  tags: rule.draft.tags,
  draft: rule.draft,
  draftVersion: rule.draftVersion,
  published,
  publishedVersion: rule.publishedVersion ?? null,
  createdBy: rule.createdBy,
  createdAt: rule.createdAt.toISOString(),
  updatedAt: rule.updatedAt.toISOString(),
});

export type ShownRule = ReturnType<typeof showRule>;

/** Maximum number of a project's rules that are not archived. */
export const RULES_MAX = 2_000;

/** Maximum number of a project's rules including archived ones, whose keys and history are kept. */
export const RULES_WITH_ARCHIVED_MAX = 20_000;

/** Words used in place of a key in paths of the API. */
const RESERVED_KEYS: ReadonlySet<string> = new Set(["catalogue", "graph", "order", "simulate", "validate"]);

const KEY_TAKEN = (key: string) =>
  conflict("KEY_TAKEN", `the key ${key} is taken; archived rules keep theirs`);

/** Creates a rule as DRAFT. @throws DomainError CONFLICT: KEY_TAKEN, RULE_LIMIT */
export const createRule = async (
  work: Work,
  projectId: string,
  document: RuleDocument,
  createdBy: string,
): Promise<ShownRule> => {
  const { em, now } = work;
  await lockRoom(work, projectId, "rules");
  await checkKey(work, projectId, document.key);
  const kept = await em.count(Rule, { projectId, status: { $ne: "ARCHIVED" } });
  refuseFull({ kept, all: await em.count(Rule, { projectId }) });
  const draft = keptAs(document);
  const rule = em.create(Rule, {
    id: newId(),
    projectId,
    key: document.key,
    name: document.name,
    status: "DRAFT",
    pauseReason: null,
    draft,
    draftVersion: 1,
    publishedVersion: null,
    createdBy,
    createdAt: now,
    updatedAt: now,
  });
  await flushKey(work, document.key);
  await refuseLargeDraft(work, projectId);
  await auditDefinition(work, "rule.created", rule);
  return showRule(rule, null);
};

/**
 * `kept`, `all`: number of rules without and with the archived ones. @throws DomainError CONFLICT: RULE_LIMIT
 */
export const refuseFull = ({ kept, all }: { kept: number; all: number }): void => {
  if (kept < RULES_MAX && all < RULES_WITH_ARCHIVED_MAX) return;
  throw conflict(
    "RULE_LIMIT",
    `a project may have ${RULES_MAX} rules, and ${RULES_WITH_ARCHIVED_MAX} with archived ones`,
  );
};

/** Returns a document in its stored form. @throws DomainError VALIDATION_ERROR TOO_LARGE */
const keptAs = (document: RuleDocument): RuleDocument => {
  const draft = { ...document, actions: identifyActions(document.actions) };
  checkSize("rule", draft, RULE_MAX_BYTES);
  return draft;
};

/** Two transactions may have found the key free at the same time. */
const flushKey = async ({ em }: Work, key: string): Promise<void> => {
  try {
    await em.flush();
  } catch (error) {
    throw error instanceof UniqueConstraintViolationException ? KEY_TAKEN(key) : error;
  }
};

/** @throws DomainError VALIDATION_ERROR */
export const refuseReserved = (key: string): void => {
  if (RESERVED_KEYS.has(key)) throw invalid("key", `${key} is reserved: choose another key`);
};

const checkKey = async ({ em }: Work, projectId: string, key: string): Promise<void> => {
  refuseReserved(key);
  if ((await em.count(Rule, { projectId, key })) > 0) throw KEY_TAKEN(key);
};

/** Returns the rule named by `{ruleId}` in a path: the UUID or the key. */
export const findRule = async (
  { em }: Work,
  projectId: string,
  ref: string,
  lockMode?: LockMode,
): Promise<Rule> => {
  const options = lockMode === undefined ? {} : { lockMode };
  const byId = isId(ref) ? await em.findOne(Rule, { projectId, id: ref }, options) : null;
  const found = byId ?? (await em.findOne(Rule, { projectId, key: ref }, options));
  if (!found) throw notFound("rule");
  return found;
};

/** Returns the id of a rule by which a list is filtered, if it is. @throws DomainError NOT_FOUND */
export const findRuleId = async (
  work: Work,
  projectId: string,
  ref: string | undefined,
): Promise<string | undefined> => (ref === undefined ? undefined : (await findRule(work, projectId, ref)).id);

/** Reads a rule for change. @throws DomainError NOT_FOUND, CONFLICT: INVALID_STATE when it is archived */
export const lockRule = async (work: Work, projectId: string, ref: string): Promise<Rule> => {
  const rule = await findRule(work, projectId, ref, LockMode.PESSIMISTIC_WRITE);
  if (rule.status === "ARCHIVED") throw conflict("INVALID_STATE", "the rule is archived");
  return rule;
};

/** Returns rules in their API form, with their published versions. */
export const presentRules = async ({ em }: Work, rules: readonly Rule[]): Promise<ShownRule[]> => {
  const published = rules.flatMap(({ id, publishedVersion }) =>
    publishedVersion == null ? [] : [{ ruleId: id, version: publishedVersion }],
  );
  const versions = published.length === 0 ? [] : await em.find(RuleVersion, { $or: published });
  const definitions = new Map(versions.map(({ ruleId, definition }) => [ruleId, definition]));
  return rules.map((rule) => showRule(rule, definitions.get(rule.id) ?? null));
};

export const presentRule = async (work: Work, rule: Rule): Promise<ShownRule> =>
  (await presentRules(work, [rule]))[0]!;

export const getRule = async (work: Work, projectId: string, ref: string): Promise<ShownRule> =>
  presentRule(work, await findRule(work, projectId, ref));

/** Orders of the list; `priority` is that of the draft. */
export const RULE_ORDERS = {
  by: {
    createdAt: sql`created_at`,
    updatedAt: sql`updated_at`,
    name: sql`lower(name)`,
    key: sql`key`,
    status: sql`status`,
    priority: sql`coalesce((draft->>'priority')::int, 0)`,
  },
  usual: "desc",
} as const;

type ListRules = PageQuery &
  Ordered<SortOf<typeof RULE_ORDERS>> & {
    /** Default: all but ARCHIVED. */
    status?: RuleStatus | undefined;
    /** Rules whose draft listens to this event type, by name or by pattern. */
    eventType?: string | undefined;
    tag?: string | undefined;
    /** Substring of the name or key, case-insensitive. */
    search?: string | undefined;
  };

/** Lists rules. */
export const listRules = async (
  work: Work,
  projectId: string,
  query: ListRules,
): Promise<{ rules: ShownRule[]; total: number }> => {
  const where = filterOf(projectId, query);
  const { total } = await countRows(work, sql`rules where ${where}`);

  // As plain rows: the unit of work would compare every document with its original, though none has changed.
  const page = await sql<RuleToShow & { published: RuleDocument | null }>`
    select id, key, name, status, pause_reason as "pauseReason", draft, draft_version as "draftVersion",
      published_version as "publishedVersion", created_by as "createdBy", created_at as "createdAt",
      updated_at as "updatedAt", v.definition as published
    from rules r left join rule_versions v on v.rule_id = r.id and v.version = r.published_version
    where ${where}
    order by ${orderBy(RULE_ORDERS, query, sql`id`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  return { rules: page.rows.map(({ published, ...row }) => showRule(row, published)), total };
};

const filterOf = (projectId: string, { status, eventType, tag, search }: ListRules): RawBuilder<unknown> => {
  const parts = [sql`project_id = ${projectId}`];
  parts.push(status === undefined ? sql`status <> 'ARCHIVED'` : sql`status = ${status}`);
  if (eventType !== undefined) {
    const listening = patternsOf(eventType).map((pattern) =>
      draftHolds({ triggers: [{ eventTypes: [pattern] }] }),
    );
    parts.push(sql`(${sql.join(listening, sql` or `)})`);
  }
  if (tag !== undefined) parts.push(draftHolds({ tags: [tag] }));
  if (search !== undefined) {
    const like = containing(search);
    parts.push(sql`(name ilike ${like} or key ilike ${like})`);
  }
  return sql.join(parts, sql` and `);
};

const draftHolds = (part: object): RawBuilder<unknown> => sql`draft @> ${JSON.stringify(part)}::jsonb`;

/**
 * Edits the draft; the running version does not change until it is published.
 * @throws DomainError CONFLICT: VERSION_CONFLICT when somebody else has edited it since, KEY_TAKEN;
 * VALIDATION_ERROR
 */
export const patchRule = async (
  work: Work,
  projectId: string,
  ref: string,
  patch: RulePatch,
): Promise<ShownRule> => {
  const { draftVersion, ...changes } = patch;
  const rule = await lockRule(work, projectId, ref);
  if (draftVersion !== rule.draftVersion) {
    throw conflict(
      "VERSION_CONFLICT",
      `the draft is at version ${rule.draftVersion}, the edit is based on ${draftVersion}`,
    );
  }
  if (changes.key !== undefined && changes.key !== rule.key) {
    if (rule.publishedVersion !== null)
      throw invalid("key", "cannot change once the rule has been published");
    await checkKey(work, projectId, changes.key);
  }
  const merged = Object.entries({ ...rule.draft, ...definedOf(changes) });
  const given = Object.fromEntries(merged.filter(([, value]) => value !== null));
  checkSize("rule", given, RULE_MAX_BYTES);
  const draft = keptAs(KeptRule.parse(given));
  const isLarger = rule.publishedVersion === null && bytesOf(draft) > bytesOf(rule.draft);
  rule.draft = draft;
  rule.key = draft.key;
  rule.name = draft.name;
  rule.draftVersion++;
  rule.updatedAt = work.now;
  await flushKey(work, rule.key);
  if (isLarger) await refuseLargeDraft(work, projectId);
  await auditDefinition(work, "rule.updated", rule);
  return presentRule(work, rule);
};
