import { auditDefinition } from "../../audit/definitions.ts";
import { changeConfig } from "../../config-lock.ts";
import { conflict } from "../../errors.ts";
import type { Work } from "../../work.ts";
import { RuleDocument } from "../language/document.ts";
import { cyclesWith } from "./graph.ts";
import { namedProblems } from "../language/named.ts";
import { Rule, RuleVersion, type ShownRule } from "../rule.ts";
import { lockRule, presentRule } from "../rules.ts";
import { planSchedules } from "../running/schedules.ts";
import { cycleText, LOOP_ADVICE, problemsOf, refusal } from "./validate.ts";
import { findVersion, isDraftPublished } from "./versions.ts";

/** Rules of a project that run, in SHADOW or not: each may cost every event. */
export const ACTIVE_RULES_MAX = 1_000;

/** How a published rule runs: SHADOW rules are evaluated, and nothing of what they would do is done. */
export const PUBLISH_MODES = ["ACTIVE", "SHADOW"] as const;
export type PublishMode = (typeof PUBLISH_MODES)[number];

const RUNNING: readonly Rule["status"][] = ["ACTIVE", "SHADOW"];

const checkRoom = async ({ em }: Work, { projectId, id }: Rule): Promise<void> => {
  const active = await em.count(Rule, { projectId, status: { $in: [...RUNNING] }, id: { $ne: id } });
  if (active >= ACTIVE_RULES_MAX)
    throw conflict("RULE_LIMIT", `a project may have ${ACTIVE_RULES_MAX} active rules`);
};

/** A rule after its publication. `warnings` is what may not be as meant, and did not stop it. */
export type PublishedRule = ShownRule & { warnings: string[] };

/**
 * Refuses what cannot run in the project: what the rule names must be there, and rules must not set one
 * another off without end.
 * @returns circles that something ends
 * @throws DomainError VALIDATION_ERROR; its reason is RULE_LOOP for a circle
 */
const checkRunnable = async (work: Work, rule: Rule, definition: RuleDocument): Promise<string[]> => {
  const { projectId, id, key } = rule;
  const named = await namedProblems(work, projectId, definition);
  if (named.length > 0) throw refusal(named);
  const cycles = await cyclesWith(work, projectId, { id, key, status: rule.status, definition });
  const endless = cycles.filter(({ isBounded }) => !isBounded);
  if (endless.length > 0) {
    const details = endless.map((cycle) => ({
      field: "triggers",
      message: `${cycleText(cycle)}: ${LOOP_ADVICE}`,
    }));
    throw refusal(details, "RULE_LOOP");
  }
  return cycles.map(cycleText);
};

/** What is published of a rule, checked anew: what the schema allows may have changed since it was saved. */
const checkDocument = (document: unknown): RuleDocument => {
  const parsed = RuleDocument.safeParse(document);
  if (!parsed.success) throw refusal(problemsOf(parsed.error));
  return parsed.data;
};

export type Publication = {
  changeNote?: string | undefined;
  publishedBy: string;
  /** Default ACTIVE. */
  mode?: PublishMode | undefined;
};

/**
 * Makes the draft the version that runs, from the next batch of events on.
 * @throws DomainError VALIDATION_ERROR when it names what is not there, or sets itself off without end; its
 * details name each place; CONFLICT: RULE_LIMIT
 */
export const publishRule = async (
  work: Work,
  projectId: string,
  ref: string,
  { mode = "ACTIVE", ...note }: Publication,
): Promise<PublishedRule> => {
  await changeConfig(work, projectId);
  const rule = await lockRule(work, projectId, ref);
  const definition = checkDocument(rule.draft);
  const warnings = await checkRunnable(work, rule, definition);
  await checkRoom(work, rule);
  addVersion(work, rule, { definition, ...note });
  return { ...(await setStatus(work, rule, mode, "published")), warnings };
};

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
export const rollbackRule = async (
  work: Work,
  projectId: string,
  ref: string,
  { version, publishedBy }: { version: number; publishedBy: string },
): Promise<PublishedRule> => {
  await changeConfig(work, projectId);
  const rule = await lockRule(work, projectId, ref);
  const older = await findVersion(work, rule, version);
  const definition = checkDocument(older.definition);
  const warnings = await checkRunnable(work, rule, definition);
  await checkRoom(work, rule);
  if (await isDraftPublished(work, rule)) {
    rule.draft = definition;
    rule.name = definition.name;
    rule.draftVersion++;
  }
  addVersion(work, rule, { definition, changeNote: `Back to version ${version}`, publishedBy });
  const status = rule.status === "SHADOW" ? "SHADOW" : "ACTIVE";
  return { ...(await setStatus(work, rule, status, "rolled_back")), warnings };
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

/** Stops a rule that runs; what it counted stays. @throws DomainError CONFLICT: INVALID_STATE */
export const pauseRule = async (work: Work, projectId: string, ref: string): Promise<ShownRule> => {
  await changeConfig(work, projectId);
  const rule = await lockRule(work, projectId, ref);
  if (!RUNNING.includes(rule.status))
    throw conflict("INVALID_STATE", `only a rule that runs can be paused, this is ${rule.status}`);
  return setStatus(work, rule, "PAUSED", "paused");
};

/** Why the engine pauses a rule by itself. */
export type PauseReason = "LOOP_GUARD" | "BUDGET";

/**
 * Pauses a rule that the engine has found to do harm; call it in a transaction of its own, since a batch
 * holds the definitions as they are.
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

/** Lets what is published run (again): it may have become unfit since. */
const start = async (
  work: Work,
  { projectId, ref }: { projectId: string; ref: string },
  { from, to, step, refusedAs }: Start,
): Promise<PublishedRule> => {
  await changeConfig(work, projectId);
  const rule = await lockRule(work, projectId, ref);
  if (!from.includes(rule.status)) throw conflict("INVALID_STATE", `${refusedAs}, this is ${rule.status}`);
  const { definition } = await findVersion(work, rule, rule.publishedVersion!);
  const warnings = await checkRunnable(work, rule, checkDocument(definition));
  await checkRoom(work, rule);
  return { ...(await setStatus(work, rule, to, step)), warnings };
};

/**
 * Lets a rule that is PAUSED or in SHADOW act again, as it was published.
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
 * Puts a rule that is ACTIVE or PAUSED into SHADOW: it is evaluated, and nothing of what it would do is done.
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

/** Ends a rule for good. It keeps its key and its versions. @throws DomainError CONFLICT: INVALID_STATE */
export const archiveRule = async (work: Work, projectId: string, ref: string): Promise<ShownRule> => {
  await changeConfig(work, projectId);
  return setStatus(work, await lockRule(work, projectId, ref), "ARCHIVED", "archived");
};
