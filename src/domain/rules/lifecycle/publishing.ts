import { z } from "zod";
import { isDeepStrictEqual } from "node:util";
import { sql } from "kysely";
import { auditDefinition } from "../../accounts/audit/audit.ts";
import { changeRunning, checkSize } from "../../economy/definitions/running.ts";
import { cyclesWith, cycleText, loopText } from "../../economy/loops/loops.ts";
import { KeptRule, type RuleDocument, StoredRule } from "../../evaluation/language/document.ts";
import type { LeftOut } from "../../evaluation/running/outcome.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import { type RowOf, shownRow } from "../../kernel/json.ts";
import { RULE_MAX_BYTES } from "../../kernel/limits.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import { changeConfig, type Work } from "../../kernel/work.ts";
import { problemsOf, refusal } from "./validate.ts";
import { namedProblems } from "../named.ts";
import { findRule, lockRule, presentRule, Rule, RuleVersion, type ShownRule } from "../rules.ts";
import { planAllSchedules, planSchedules } from "../schedules.ts";
import type { StepsHit } from "../../evaluation/turn.ts";
import type { LoopHit } from "../../evaluation/rule-event.ts";

/** Chooses which of a rule's documents to run. */
type Choose = (rule: Rule) => RuleDocument | Promise<RuleDocument>;

const readDraft = ({ draft }: Rule): RuleDocument => draft;

type RuleRef = { projectId: string; ref: string };

/** A rule after its publication. `warnings`: cycles that end by themselves. */
type PublishedRule = ShownRule & { warnings: string[] };

/**
 * Locks a rule and its project's definitions, checks that a document can run there, and makes it run.
 * @param choose which of its documents; `isNew`: it becomes a version
 * @param change makes the document run, if the project's limit allows
 * @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE, RULE_LIMIT; VALIDATION_ERROR: the document's names must
 * exist, and rules must not trigger one another endlessly (its reason is then RULE_LOOP)
 */
const makeRun = async (
  work: Work,
  { projectId, ref }: RuleRef,
  { choose, isNew }: { choose: Choose; isNew: boolean },
  change: (rule: Rule, definition: RuleDocument) => Promise<ShownRule>,
): Promise<PublishedRule> => {
  await work.em.flush();
  await changeConfig(work, projectId);
  const rule = await lockRule(work, projectId, ref);
  const definition = checkDocument(await choose(rule));
  const named = await namedProblems(work, projectId, definition);
  if (named.length > 0) throw refusal(named);
  const { id, key, status } = rule;
  const cycles = await cyclesWith(work, projectId, { id, key, status, definition });
  const endless = cycles.filter(({ isBounded }) => !isBounded);
  const details = endless.map((cycle) => ({ field: "triggers", message: loopText(cycle) }));
  if (details.length > 0) throw refusal(details, "RULE_LOOP");
  if (isNew) checkSize("rule", definition, RULE_MAX_BYTES);
  refuseFullOfActive(
    await work.em.count(Rule, { projectId, status: { $in: [...RUNNING] }, id: { $ne: id } }),
  );
  const running = { projectId, reason: "RULE_LIMIT", isLoopChecked: true } as const;
  const shown = await changeRunning(work, running, () => change(rule, definition));
  return { ...shown, warnings: cycles.map(cycleText) };
};

/** Validates a rule's published document again: the schema may have changed since it was saved. */
const checkDocument = (document: unknown): RuleDocument => {
  const parsed = KeptRule.safeParse(document);
  if (!parsed.success) throw refusal(problemsOf(parsed.error));
  return parsed.data;
};

/** A published version as the API shows it. */
export const ShownVersion = z
  .object({
    version: z.int(),
    definition: StoredRule,
    changeNote: z.string().nullable(),
    publishedBy: z.string(),
    publishedAt: z.iso.datetime(),
    isPublished: z.boolean().meta({ description: "The one that runs, or would" }),
  })
  .meta({ id: "RuleVersion" });
export type ShownVersion = z.output<typeof ShownVersion>;

/** Orders of the list. */
export const VERSION_ORDERS = { by: { version: sql`version` }, usual: "desc" } as const;

/** Lists a rule's versions, newest first. @throws DomainError NOT_FOUND */
export const listVersions = async (
  work: Work,
  projectId: string,
  ref: string,
  query: PageQuery & Ordered<SortOf<typeof VERSION_ORDERS>>,
): Promise<{ versions: ShownVersion[]; total: number }> => {
  const rule = await findRule(work, projectId, ref);
  const total = await work.em.count(RuleVersion, { ruleId: rule.id });
  const page = await sql<RowOf<ShownVersion>>`
    select version, definition, change_note as "changeNote", published_by as "publishedBy",
      published_at as "publishedAt", coalesce(version = ${rule.publishedVersion}::int, false) as "isPublished"
    from rule_versions where rule_id = ${rule.id} order by ${orderBy(VERSION_ORDERS, query, sql`version`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  return { versions: page.rows.map((row) => shownRow(row)), total };
};

/** @throws DomainError NOT_FOUND */
export const findVersion = async (
  { em }: Work,
  { id }: Pick<Rule, "id">,
  version: number,
): Promise<RuleVersion> => {
  const found = await em.findOne(RuleVersion, { ruleId: id, version });
  if (!found) throw notFound(`version ${version}`);
  return found;
};

/** Whether the draft equals the published version. */
const isDraftPublished = async (work: Work, rule: Rule): Promise<boolean> => {
  if (rule.publishedVersion == null) return false;
  const { definition } = await findVersion(work, rule, rule.publishedVersion);
  return isDeepStrictEqual(definition, rule.draft);
};

/** Maximum number of a project's running rules, in SHADOW or not: each may cost every event. */
export const ACTIVE_RULES_MAX = 1_000;

/** Modes of a published rule: SHADOW rules are evaluated, but none of their effects is applied. */
export const PUBLISH_MODES = ["ACTIVE", "SHADOW"] as const;
type PublishMode = (typeof PUBLISH_MODES)[number];

const RUNNING: readonly Rule["status"][] = ["ACTIVE", "SHADOW"];

/** @param active number of other running rules @throws DomainError CONFLICT: RULE_LIMIT */
export const refuseFullOfActive = (active: number): void => {
  if (active >= ACTIVE_RULES_MAX)
    throw conflict("RULE_LIMIT", `a project may have ${ACTIVE_RULES_MAX} active rules`);
};

type Publication = {
  changeNote?: string | undefined;
  publishedBy: string;
  /** Default ACTIVE. */
  mode?: PublishMode | undefined;
};

/**
 * Makes the draft the running version, effective from the next batch of events.
 * @throws DomainError VALIDATION_ERROR when it names unknown definitions, or triggers itself endlessly; its
 * details name each location; CONFLICT: RULE_LIMIT
 */
export const publishRule = (
  work: Work,
  projectId: string,
  ref: string,
  { mode = "ACTIVE", ...note }: Publication,
): Promise<PublishedRule> =>
  makeRun(work, { projectId, ref }, { choose: readDraft, isNew: true }, (rule, definition) => {
    addVersion(work, rule, { definition, ...note });
    return setStatus(work, rule, mode, "published");
  });

type NewVersion = { definition: RuleDocument; changeNote?: string | undefined; publishedBy: string };

/** Adds a version and makes it the published one, at the next flush; the rule's status stays. */
export const addVersion = (
  { em, now }: Work,
  rule: Rule,
  { definition, changeNote, publishedBy }: NewVersion,
): void => {
  const version = (rule.publishedVersion ?? 0) + 1;
  em.create(RuleVersion, {
    ruleId: rule.id,
    version,
    definition,
    changeNote: changeNote ?? null,
    publishedBy,
    publishedAt: now,
  });
  rule.publishedVersion = version;
};

/**
 * Publishes an older version as a new one. A rule in SHADOW stays there, any other is ACTIVE. The draft
 * becomes that version too, unless it has edits that were never published.
 * @throws DomainError NOT_FOUND: rule, version; VALIDATION_ERROR and CONFLICT as `publishRule`
 */
export const rollbackRule = (
  work: Work,
  projectId: string,
  ref: string,
  { version, publishedBy }: { version: number; publishedBy: string },
): Promise<PublishedRule> => {
  const choose = async (found: Rule) => (await findVersion(work, found, version)).definition;
  return makeRun(work, { projectId, ref }, { choose, isNew: true }, async (rule, definition) => {
    const status = rule.status === "SHADOW" ? "SHADOW" : "ACTIVE";
    if (await isDraftPublished(work, rule))
      Object.assign(rule, { draft: definition, name: definition.name, draftVersion: rule.draftVersion + 1 });
    addVersion(work, rule, { definition, changeNote: `Back to version ${version}`, publishedBy });
    return setStatus(work, rule, status, "rolled_back");
  });
};

type Step = "published" | "rolled_back" | "paused" | "resumed" | "shadowed" | "archived";

const setStatus = async (work: Work, rule: Rule, status: Rule["status"], step: Step): Promise<ShownRule> => {
  rule.status = status;
  rule.pauseReason = null;
  rule.updatedAt = work.now;
  await work.em.flush();
  await planSchedules(work, rule);
  await auditDefinition(work, `rule.${step}`, rule);
  return presentRule(work, rule);
};

/** Stops a running rule; its counts stay. @throws DomainError CONFLICT: INVALID_STATE */
export const pauseRule = async (work: Work, projectId: string, ref: string): Promise<ShownRule> => {
  await changeConfig(work, projectId);
  const rule = await lockRule(work, projectId, ref);
  if (!RUNNING.includes(rule.status))
    throw conflict("INVALID_STATE", `only a running rule can be paused, this one is ${rule.status}`);
  return setStatus(work, rule, "PAUSED", "paused");
};

/** Why the engine pauses a rule by itself. */
type PauseReason = "LOOP_GUARD" | "BUDGET" | "STEPS" | "UNFIT";

/**
 * Pauses a rule that the engine has found harmful; must be called in a transaction of its own, since a batch
 * keeps the definitions locked as they are.
 * @returns false when it does not run any more
 */
export const pauseByEngine = async (
  work: Work,
  projectId: string,
  ruleId: string,
  reason: PauseReason,
): Promise<boolean> => {
  await changeConfig(work, projectId);
  const rule = await work.em.findOne(Rule, { projectId, id: ruleId }, { refresh: true });
  if (!rule || !RUNNING.includes(rule.status)) return false;
  await setStatus(work, rule, "PAUSED", "paused");
  rule.pauseReason = reason;
  await work.em.flush();
  return true;
};

type Start = { from: readonly Rule["status"][]; to: PublishMode; step: Step; refusedAs: string };

/** Runs the published version (again): it may have become unfit since. */
const start = (
  work: Work,
  { projectId, ref }: { projectId: string; ref: string },
  { from, to, step, refusedAs }: Start,
): Promise<PublishedRule> => {
  const choose = async (found: Rule): Promise<RuleDocument> => {
    if (!from.includes(found.status))
      throw conflict("INVALID_STATE", `${refusedAs}, this is ${found.status}`);
    return (await findVersion(work, found, found.publishedVersion!)).definition;
  };
  return makeRun(work, { projectId, ref }, { choose, isNew: false }, (rule) =>
    setStatus(work, rule, to, step),
  );
};

/**
 * Activates a rule that is PAUSED or in SHADOW, as it was published.
 * @throws DomainError CONFLICT: INVALID_STATE, RULE_LIMIT; VALIDATION_ERROR as `publishRule`
 */
export const resumeRule = (work: Work, projectId: string, ref: string): Promise<PublishedRule> =>
  start(
    work,
    { projectId, ref },
    {
      from: ["PAUSED", "SHADOW"],
      to: "ACTIVE",
      step: "resumed",
      refusedAs: "only a paused or SHADOW rule can resume",
    },
  );

/**
 * Puts a rule that is ACTIVE or PAUSED into SHADOW: it is evaluated, but none of its effects is applied.
 * @throws DomainError as `resumeRule`
 */
export const shadowRule = (work: Work, projectId: string, ref: string): Promise<PublishedRule> =>
  start(
    work,
    { projectId, ref },
    {
      from: ["ACTIVE", "PAUSED"],
      to: "SHADOW",
      step: "shadowed",
      refusedAs: "only an active or paused rule can go into SHADOW",
    },
  );

/**
 * Archives a rule permanently. It keeps its key and its versions. @throws DomainError CONFLICT: INVALID_STATE
 */
export const archiveRule = async (work: Work, projectId: string, ref: string): Promise<ShownRule> => {
  await changeConfig(work, projectId);
  return setStatus(work, await lockRule(work, projectId, ref), "ARCHIVED", "archived");
};

/** Number of events within LOOPS_SPAN_MS whose steps one rule may exhaust before a process pauses it. */
export const STEPS_HITS_MAX = 100;
/** Number of loops within LOOPS_SPAN_MS that one rule may cause before a process pauses it. */
export const LOOPS_MAX = 100;
export const LOOPS_SPAN_MS = 10 * 60_000;
/** Maximum number of rules whose loops a process remembers; the oldest entry is evicted. */
const RULES_REMEMBERED_MAX = 1_000;

/** Counts, in one process, the events in which the engine had to hold a rule. */
export type RuleWatch = {
  /** @returns whether the limit is reached, so that the rule must be paused; then the count restarts */
  hit(ruleId: string, nowMs: number): boolean;
};

/** @param max hits within LOOPS_SPAN_MS that are too many */
export const createRuleWatch = (max: number): RuleWatch => {
  const times = new Map<string, number[]>();
  return {
    hit: (ruleId, nowMs) => {
      const recent = (times.get(ruleId) ?? []).filter((ms) => ms > nowMs - LOOPS_SPAN_MS);
      recent.push(nowMs);
      if (recent.length >= max) {
        times.delete(ruleId);
        return true;
      }
      if (!times.has(ruleId) && times.size >= RULES_REMEMBERED_MAX) times.delete(times.keys().next().value!);
      times.set(ruleId, recent);
      return false;
    },
  };
};

/**
 * Pauses a rule that exhausts the steps of one event after another, and reports it. In a transaction of its
 * own, as pauseLoopingRule.
 */
export const pauseExpensiveRule = async (
  work: Work,
  { projectId, rootEventId, spender }: StepsHit,
): Promise<void> => {
  if (!(await pauseByEngine(work, projectId, spender.id, "STEPS"))) return;
  work.emit(projectId, "event.steps_exhausted", { ...spender, rootEventId, paused: true });
};

/**
 * Pauses a rule that cannot be evaluated, without reading its documents: their size may be the problem. In a
 * transaction of its own, as pauseLoopingRule.
 */
export const pauseUnfitRule = async (
  work: Work,
  projectId: string,
  { id, version }: LeftOut,
): Promise<void> => {
  await changeConfig(work, projectId);
  const reason: PauseReason = "UNFIT";
  const { rows } = await sql<{ key: string }>`
    update rules set status = 'PAUSED', pause_reason = ${reason},
      updated_at = ${work.now.toISOString()}::timestamptz
    where project_id = ${projectId} and id = ${id} and published_version = ${version}
      and status in ('ACTIVE', 'SHADOW')
    returning key`.execute(work.db);
  if (rows.length > 0) await planAllSchedules(work, projectId, [{ id, running: undefined }]);
};

/**
 * Pauses the rule at the end of a loop, and reports it. In a transaction of its own: a batch keeps the
 * definitions locked as they are.
 */
export const pauseLoopingRule = async (work: Work, hit: LoopHit): Promise<void> => {
  const { projectId, rootEventId, chain } = hit;
  const { ruleId, ruleKey } = chain.at(-1)!;
  if (!(await pauseByEngine(work, projectId, ruleId, "LOOP_GUARD"))) return;
  const keys = chain.map((step) => step.ruleKey);
  work.emit(projectId, "rule.loop_detected", { ruleKey, ruleId, rootEventId, chain: keys, paused: true });
};
