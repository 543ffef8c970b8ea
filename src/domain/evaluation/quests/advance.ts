import { closedBy } from "../adventures/progress.ts";
import { type Condition, kindOf } from "../conditions/condition-kinds.ts";
import { type ConditionNode, explainGroup, type TraceNode } from "../language/groups.ts";
import { groupOf } from "../language/trees.ts";
import { asReceived } from "../live.ts";
import { readMetric } from "../metrics/count.ts";
import type { PlayerState } from "../player-state.ts";
import type { PlanTurn } from "../project-plan.ts";
import {
  type CompiledQuest,
  type CompiledStep,
  hasPlaceNow,
  isFull,
  type QuestIndex,
  startsAtOnce,
  type StatefulQuest,
} from "./compile.ts";
import { whyNotFree } from "./context.ts";
import {
  countEventFor,
  freeCycle,
  inProgress,
  isCounting,
  settleQuest,
  settleSteps,
  startQuest,
} from "./progress.ts";
import type { QuestRow } from "./row.ts";
import { activeSteps } from "./step.ts";
import { isReached } from "./store.ts";
import { saveSeen, type SeenInputs, updateInputs } from "../segments/membership.ts";
import type { QuestVerdict } from "../turn.ts";

const NOTHING_DONE = (): boolean => false;

/** Returns the steps that are active as soon as the quest has started, or count from then on. */
export const firstSteps = ({ definition, steps }: CompiledQuest): CompiledStep[] => {
  const active = activeSteps(definition, NOTHING_DONE);
  return steps.filter((_step, i) => active[i] === true);
};

/** Returns whether the turn's event counts for a step that is active at the start. */
export const beginsByEvent = (turn: PlanTurn, quest: CompiledQuest): boolean => {
  const counting = new Set(quest.stepsFor(turn.event.type).map((place) => quest.steps[place]));
  if (counting.size === 0) return false;
  return firstSteps(quest).some((step) => counting.has(step) && isMatching(turn, step));
};

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

const DETAIL_MAX = 300;

/** What is known of a quest before the turn's event is applied to it. */
type Before = { running: QuestRow | undefined; completions: number };

const beforeEvent = (turn: PlanTurn, quest: CompiledQuest): Before => ({
  running: inProgress(turn, quest)?.row,
  completions: turn.player.quests.get(quest.key)?.latest.completions ?? 0,
});

type Why = Pick<QuestVerdict, "reason" | "detail">;

const isMatching = (turn: PlanTurn, { sampleOf, lifetime }: CompiledStep): boolean =>
  (sampleOf ?? lifetime?.sampleOf)?.(turn) !== undefined;

/** Why an event does not count for a step of a row; undefined where it does. */
const whyNotStep = (turn: PlanTurn, row: QuestRow, step: CompiledStep): Why | undefined => {
  const { key } = step.definition;
  const progress = row.steps[key];
  if (progress?.doneMs !== undefined) return { reason: "STEP_NOT_ACTIVE", detail: `the step ${key} is done` };
  if (!isMatching(turn, step))
    return { reason: "NOT_MATCHING", detail: `the step ${key} does not count such an event` };
  if (step.lifetime || isCounting(turn, row, step)) return undefined;
  const isActive = progress?.startMs !== undefined;
  return isActive
    ? { reason: "BEFORE_START", detail: `the event is earlier than the start of the step ${key}` }
    : { reason: "STEP_NOT_ACTIVE", detail: `the step ${key} waits for others` };
};

/** The reasons of which, where several steps count the type, the most telling is named. */
const TELLING = ["NOT_MATCHING", "BEFORE_START", "STEP_NOT_ACTIVE"];

const COUNTED: Why = { reason: "COUNTED" };

const whyRunning = (turn: PlanTurn, version: CompiledQuest, row: QuestRow): Why => {
  const reasons = version.stepsFor(turn.event.type).map((at) => whyNotStep(turn, row, version.steps[at]!));
  if (reasons.includes(undefined)) return COUNTED;
  const found = reasons.toSorted((a, b) => TELLING.indexOf(a!.reason) - TELLING.indexOf(b!.reason));
  return found[0] ?? { reason: "NOT_MATCHING", detail: "the player's version has no step that counts it" };
};

const whyNotBegun = (turn: PlanTurn, quest: CompiledQuest): Why => {
  if (turn.player.status !== "ACTIVE") return { reason: "PLAYER_INACTIVE" };
  const next = freeCycle(turn, quest);
  if (!next) return { reason: "NOT_AVAILABLE", detail: whyNotFree(turn, quest) };
  if (quest.definition.start.mode !== "AUTO")
    return { reason: "NOT_STARTED", detail: "it is started by hand" };
  if (next.again?.state === "ABANDONED") return { reason: "NOT_STARTED", detail: "it was abandoned" };
  if (!beginsByEvent(turn, quest))
    return { reason: "NOT_MATCHING", detail: "no step with which it begins counts such an event" };
  return { reason: "LOCKED", detail: whyLocked(turn, quest) };
};

const whyOf = (turn: PlanTurn, quest: CompiledQuest, before: Before): Why => {
  const { completions = 0 } = turn.player.quests.get(quest.key)?.latest ?? {};
  if (completions > before.completions) return COUNTED;
  if (quest.phase === "PAUSED") return { reason: "PAUSED" };
  const running = inProgress(turn, quest);
  if (!running) return whyNotBegun(turn, quest);
  if (running.row.id !== before.running?.id) return COUNTED;
  // Steps that became active with the event did not count it.
  return whyRunning(turn, running.version, { ...running.row, steps: before.running.steps });
};

/** Returns whether a quest has counted the turn's event, which has been applied to it, and if not, why. */
const verdictOf = (turn: PlanTurn, quest: CompiledQuest, before: Before): QuestVerdict => {
  const why = whyOf(turn, quest, before);
  const detail = why.detail === undefined ? {} : { detail: why.detail.slice(0, DETAIL_MAX) };
  return { questKey: quest.key, counted: why === COUNTED, reason: why.reason, ...detail };
};

const beginsByState = (turn: PlanTurn, quest: CompiledQuest): boolean => {
  if (startsAtOnce(quest.definition)) return true;
  return firstSteps(quest).some(({ test }) => test?.(turn) === true);
};

type Begins = (turn: PlanTurn, quest: CompiledQuest) => boolean;

/** Starts a quest of itself, if it may be started now and what has happened begins it. */
const startByItself = (turn: PlanTurn, quest: CompiledQuest, begins: Begins): void => {
  const { player, root } = turn;
  if (quest.definition.start.mode !== "AUTO" || player.status !== "ACTIVE" || root.isTimeOnly) return;
  const next = freeCycle(turn, quest);
  // What the player has abandoned is not started again by itself.
  if (!next || next.again?.state === "ABANDONED") return;
  if (begins(turn, quest) && quest.mayStart(turn) && hasPlaceNow(turn, quest))
    startQuest(turn, quest, next, "AUTO");
};

/** Brings a quest to the present, which begins where it may, and finishes the steps that are done. */
const advance = (turn: PlanTurn, quest: CompiledQuest, begins: Begins): void => {
  settleQuest(turn, quest);
  if (quest.phase === "PAUSED") return;
  if (!inProgress(turn, quest)) startByItself(turn, quest, begins);
  const running = inProgress(turn, quest);
  if (!running) return;
  if (begins === beginsByEvent) countEventFor(turn, running.version, running.row);
  settleSteps(turn, running.version, running.row);
};

/** Applies the turn's event to one quest, and tells a trace whether it counted. */
const advanceByEvent = (turn: PlanTurn, published: CompiledQuest): void => {
  const { trace } = turn.root;
  const quest = asReceived(published, turn);
  const before = trace && beforeEvent(turn, quest);
  advance(turn, quest, beginsByEvent);
  if (before) trace.quest(verdictOf(turn, quest, before));
};

const hasCounted: Begins = (turn, quest) =>
  firstSteps(quest).some((step) => {
    const value = step.lifetime && readMetric(turn, step.lifetime);
    return value !== undefined && (value !== 0 || isReached(step, value));
  });

/**
 * Applies what counters of a player have become, other than by an event: the quest begins, steps are done.
 * @returns whether that has changed the quest
 */
export const advanceByCounts = (turn: PlanTurn, quest: CompiledQuest): boolean => {
  const { player } = turn;
  if (player.status !== "ACTIVE") return false;
  const before = player.quests.get(quest.key);
  advance(turn, quest, (...of) => hasCounted(...of) || beginsByState(...of));
  return player.quests.get(quest.key) !== before;
};

/** Step 4 of evaluation: quests that count the event's type, then those that read what has changed. */
export const advanceQuests = (turn: PlanTurn): void => {
  const { quests } = turn.project;
  if (quests.byKey.size === 0) return;
  for (const quest of quests.forEvent(turn.event.type)) advanceByEvent(turn, quest);
  refreshQuests(turn);
};

/** The inputs of stateful quests; `isNew`: not evaluated yet for this loaded player. */
const SEEN: SeenInputs = new WeakMap();

/** See `saveSeen`. */
export const saveSeenQuests = (player: PlayerState): (() => void) => saveSeen(SEEN, player);

/** Records the inputs of quests before a turn changes any of them. */
export const watchQuests = ({ stateful, readers }: QuestIndex, player: PlayerState): void => {
  if (stateful.length === 0 || SEEN.has(player)) return;
  SEEN.set(player, { values: readers.map((read) => read(player)), isNew: true });
};

/** Maximum rounds in which quests that wait for one another follow; later turns continue a longer chain. */
const ROUNDS_MAX = 10;

/** Evaluates the quests that read something that has changed, until nothing changes any more. */
export const refreshQuests = (turn: PlanTurn): void => {
  const { stateful, readers } = turn.project.quests;
  const seen = SEEN.get(turn.player);
  if (!seen || turn.player.status !== "ACTIVE") return;
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const changed = updateInputs(readers, turn.player, seen);
    const isFirst = round === 0;
    const isAffected = ({ inputs, isTimed }: StatefulQuest): boolean =>
      seen.isNew || (isFirst && isTimed) || inputs.some((place) => changed?.has(place));
    const affected = stateful.filter(isAffected);
    seen.isNew = false;
    if (affected.length === 0) return;
    for (const { quest } of affected) advance(turn, asReceived(quest, turn), beginsByState);
  }
};
