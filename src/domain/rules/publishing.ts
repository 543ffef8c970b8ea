import { auditDefinition } from "../audit/definitions.ts";
import { changeConfig } from "../config-lock.ts";
import { conflict, DomainError, type FieldProblem } from "../errors.ts";
import { Leaderboard } from "../leaderboards/leaderboard.ts";
import type { Work } from "../work.ts";
import { RuleDocument } from "./document.ts";
import { Rule, RuleVersion, type ShownRule } from "./rule.ts";
import { lockRule, presentRule } from "./rules.ts";

/** Rules of a project that run: each may cost every event. */
export const ACTIVE_RULES_MAX = 1_000;

const checkRoom = async ({ em }: Work, { projectId, id }: Rule): Promise<void> => {
  const active = await em.count(Rule, { projectId, status: "ACTIVE", id: { $ne: id } });
  if (active >= ACTIVE_RULES_MAX)
    throw conflict("RULE_LIMIT", `a project may have ${ACTIVE_RULES_MAX} active rules`);
};

export type Publication = { changeNote?: string | undefined; publishedBy: string };

/**
 * Makes the draft the version that runs, from the next batch of events on.
 * @throws DomainError VALIDATION_ERROR when it names a leaderboard that takes no scores; CONFLICT: RULE_LIMIT
 */
export const publishRule = async (
  work: Work,
  projectId: string,
  ref: string,
  { changeNote, publishedBy }: Publication,
): Promise<ShownRule> => {
  await changeConfig(work, projectId);
  const rule = await lockRule(work, projectId, ref);
  const definition = RuleDocument.parse(rule.draft);
  await checkLeaderboards(work, projectId, definition);
  await checkRoom(work, rule);
  const version = (rule.publishedVersion ?? 0) + 1;
  work.em.create(RuleVersion, {
    ruleId: rule.id,
    version,
    definition,
    changeNote: changeNote ?? null,
    publishedBy,
    publishedAt: work.now,
  });
  await work.em.flush();
  rule.publishedVersion = version;
  return setStatus(work, rule, "ACTIVE", "published");
};

/** A score can be submitted to a CUSTOM leaderboard only; the others count on their own. */
const checkLeaderboards = async (
  { em }: Work,
  projectId: string,
  { actions }: RuleDocument,
): Promise<void> => {
  const named = actions.flatMap((action, i) =>
    action.type === "submit_score"
      ? [{ field: `actions.${i}.leaderboardKey`, key: action.leaderboardKey }]
      : [],
  );
  if (named.length === 0) return;
  const keys = named.map(({ key }) => key);
  const boards = await em.find(Leaderboard, { projectId, key: { $in: keys }, status: { $ne: "ARCHIVED" } });
  const sources = new Map(boards.map(({ key, definition }) => [key, definition.metric.source]));
  const details = named.flatMap(({ field, key }): FieldProblem[] => {
    const source = sources.get(key);
    if (source === "CUSTOM") return [];
    const why =
      source === undefined ? "there is no such leaderboard" : `a leaderboard of ${source} takes no scores`;
    return [{ field, message: `${key}: ${why}` }];
  });
  const [first] = details;
  if (first) throw new DomainError("VALIDATION_ERROR", `${first.field}: ${first.message}`, { details });
};

type Step = "published" | "paused" | "resumed" | "archived";

const setStatus = async (work: Work, rule: Rule, status: Rule["status"], step: Step): Promise<ShownRule> => {
  rule.status = status;
  rule.pauseReason = null;
  rule.updatedAt = work.now;
  await auditDefinition(work, `rule.${step}`, rule);
  return presentRule(work, rule);
};

/** Stops an ACTIVE rule; what it counted stays. @throws DomainError CONFLICT: INVALID_STATE */
export const pauseRule = async (work: Work, projectId: string, ref: string): Promise<ShownRule> => {
  await changeConfig(work, projectId);
  const rule = await lockRule(work, projectId, ref);
  if (rule.status !== "ACTIVE")
    throw conflict("INVALID_STATE", `only an active rule can be paused, this is ${rule.status}`);
  return setStatus(work, rule, "PAUSED", "paused");
};

/**
 * Lets a PAUSED rule run again, as it was published.
 * @throws DomainError CONFLICT: INVALID_STATE, RULE_LIMIT
 */
export const resumeRule = async (work: Work, projectId: string, ref: string): Promise<ShownRule> => {
  await changeConfig(work, projectId);
  const rule = await lockRule(work, projectId, ref);
  if (rule.status !== "PAUSED")
    throw conflict("INVALID_STATE", `only a paused rule can resume, this is ${rule.status}`);
  await checkRoom(work, rule);
  return setStatus(work, rule, "ACTIVE", "resumed");
};

/** Ends a rule for good. It keeps its key and its versions. @throws DomainError CONFLICT: INVALID_STATE */
export const archiveRule = async (work: Work, projectId: string, ref: string): Promise<ShownRule> => {
  await changeConfig(work, projectId);
  return setStatus(work, await lockRule(work, projectId, ref), "ARCHIVED", "archived");
};
