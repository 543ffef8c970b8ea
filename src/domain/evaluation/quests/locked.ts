import { closedBy } from "../adventures/closed.ts";
import { type Condition, kindOf } from "../conditions/condition-kinds.ts";
import { type ConditionNode, explainGroup, type TraceNode } from "../language/groups.ts";
import { groupOf } from "../language/trees.ts";
import type { PlanTurn } from "../project-plan.ts";
import type { CompiledQuest } from "./compile.ts";
import { isFull } from "./places.ts";

/** A definition that a reason is about. */
type Named = { kind: string; key: string };

/** Why a quest is LOCKED: the field of the quest that says so, in words, and what it is about. */
export type LockedBy = { path: string; reason: string; names: Named[] };

const SHOWN_MAX = 20;

/** A leaf that decides, and whether it should not hold: within `none`. */
type Deciding = { node: TraceNode; condition: Condition; isUnwanted: boolean };

/** Finds the leaves that keep a group from being as it should be. */
const deciding = (condition: ConditionNode, node: TraceNode, isUnwanted = false): Deciding[] => {
  if (node.pass !== isUnwanted) return [];
  const group = groupOf(condition);
  if (!group) return [{ node, condition: condition as Condition, isUnwanted }];
  const isOpposite = group.key === "none" ? !isUnwanted : isUnwanted;
  return group.members.flatMap((member, i) => deciding(member, node.children![i]!, isOpposite));
};

const wordsOf = (value: unknown): string => {
  if (Array.isArray(value)) return value.join(" or ");
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "nothing");
};

const OPERATORS: Readonly<Record<string, string>> = {
  eq: "be",
  neq: "not be",
  gt: "be more than",
  gte: "be at least",
  lt: "be less than",
  lte: "be at most",
};

/** What a condition compares, in words. */
const subjectOf = (condition: Condition, names: readonly Named[]): string => {
  const fields = condition as { field?: string; stepKey?: string; measure?: string };
  if (fields.field !== undefined) return fields.field;
  const named = names.map(({ kind, key }) => `the ${kind} ${key}`).join(", ");
  const part = fields.stepKey === undefined ? fields.measure : `step ${fields.stepKey}`;
  return [named === "" ? condition.type : named, part].filter((one) => one !== undefined).join(", ");
};

const segmentReason = ({ node, condition, isUnwanted }: Deciding): string => {
  const { segmentKeys, match } = condition as unknown as { segmentKeys: string[]; match: string };
  const has = wordsOf(node.actual) || "none";
  const must = `must ${isUnwanted ? "not " : ""}be in ${match} of ${segmentKeys.join(", ")}`;
  return `the player ${must}, and is in ${has}`;
};

const reasonOf = (found: Deciding, names: readonly Named[]): string => {
  const { node, condition, isUnwanted } = found;
  if (condition.type === "segment") return segmentReason(found);
  const must = `must${isUnwanted ? " not" : ""}`;
  const how = node.op === undefined ? "be" : (OPERATORS[node.op] ?? `be ${node.op}`);
  const subject = subjectOf(condition, names);
  return `${subject} ${must} ${how} ${wordsOf(node.expected)}, and is ${wordsOf(node.actual)}`;
};

const ofCondition = (found: Deciding): LockedBy => {
  const { node, condition } = found;
  const names = (kindOf(condition.type)?.mentions(condition) ?? []).map(({ kind, key }) => ({ kind, key }));
  return { path: node.path, reason: reasonOf(found, names), names };
};

const ofAdventures = (turn: PlanTurn, questKey: string): LockedBy[] =>
  closedBy(turn, questKey).map(({ adventureKey, reason, questKeys }) => ({
    path: "adventures",
    reason: `the adventure ${adventureKey} ${reason}`,
    names: [{ kind: "adventure", key: adventureKey }, ...questKeys.map((key) => ({ kind: "quest", key }))],
  }));

/** Returns in words why a quest is LOCKED for the turn's player. */
export const whyLocked = (turn: PlanTurn, quest: CompiledQuest): string =>
  `it is LOCKED for the player: ${lockedBy(turn, quest)
    .map(({ reason }) => reason)
    .join("; ")}`;

/** Returns why a quest that is not begun is LOCKED for the turn's player. */
export const lockedBy = (turn: PlanTurn, quest: CompiledQuest): LockedBy[] => {
  const { audience, prerequisites } = quest.definition;
  if (isFull(turn, quest)) return [{ path: "maxParticipants", reason: "all places are taken", names: [] }];
  const found = ofAdventures(turn, quest.key);
  if (prerequisites) {
    const leaves = deciding(prerequisites, explainGroup(prerequisites, turn, "prerequisites"));
    found.push(...leaves.slice(0, SHOWN_MAX).map(ofCondition));
  }
  if (found.length === 0 && audience) {
    const { match, segmentKeys } = audience;
    const reason = `it is for players in ${match} of the segments ${segmentKeys.join(", ")}`;
    found.push({ path: "audience", reason, names: segmentKeys.map((key) => ({ kind: "segment", key })) });
  }
  return found;
};
