import type { AdventureIndex } from "../adventures/compile.ts";
import type { Test } from "../conditions/condition.ts";
import type { Spender } from "../event-cost.ts";
import { compileGroup, conditionMetrics, type Group } from "../language/groups.ts";
import { createTypeIndex } from "../language/patterns.ts";
import type { Pause, Phase, StoredDraft } from "../live.ts";
import type { Sample } from "../metrics/aggregates.ts";
import { type CompiledMetric, compileMetric, compileSample, type Metric } from "../metrics/compile.ts";
import type { InputReader } from "../player-state.ts";
import type { Quest } from "./quest.ts";
import type { QuestRow, StepProgress } from "./row.ts";
import {
  activeSteps,
  type EventStep,
  type ManualStep,
  type QuestStep,
  type QuizStep,
  requiredOf,
} from "./step.ts";
import { limitedKey } from "../rewards/shared-keys.ts";
import type { EventContext } from "../rule-event.ts";
import { msOf } from "../../kernel/iso-time.ts";
import { indexInputs, inputsOf } from "../segments/membership.ts";
import { audienceTest } from "../segments/audience.ts";
import type { SharedKey } from "../shared-counters.ts";
import type { Turn } from "../turn.ts";

/** A step compiled for evaluation. */
export type CompiledStep = {
  definition: QuestStep;
  target: number;
  /** EVENT: the contribution of an event of its types; undefined when it does not count. */
  sampleOf?: (context: EventContext) => Sample | undefined;
  /** EVENT with countFrom LIFETIME: the counter that it reads. */
  lifetime?: CompiledMetric;
  /** STATE: whether the player meets the condition. */
  test?: Test;
};

/** One version of a quest compiled for evaluation. */
export type CompiledQuest = {
  id: string;
  key: string;
  version: number;
  definition: Quest;
  /** A quest is also over when `availableUntil` has passed. */
  phase: Phase;
  /** When it was paused, oldest first. */
  pauses: readonly Pause[];
  /** When its designer ended it; Infinity while it is not ended. */
  endedMs: number;
  /** Available in [fromMs, untilMs). */
  fromMs: number;
  untilMs: number;
  steps: readonly CompiledStep[];
  /** How many steps complete it. */
  required: number;
  /** Returns the indexes of the EVENT steps that count events of a type. */
  stepsFor(eventType: string): readonly number[];
  /** Whether it may start for the player: audience and prerequisites. */
  mayStart: Test;
  /** Whether a state alone can start or advance it, so that changes of `inputs` matter. */
  isStateful: boolean;
  /** Names of what its conditions read; see segments/membership.ts. */
  inputs: readonly string[];
  /** Whether time alone can start or advance it. */
  isTimed: boolean;
  metrics: readonly Metric[];
  /** Earlier versions that players may still be doing. */
  earlier: ReadonlyMap<number, CompiledQuest>;
  spender: Spender;
};

/** A stored quest; `earlier`: the versions before this one that are kept. */
type StoredQuest = StoredDraft<Quest> & {
  earlier?: readonly { version: number; definition: object }[] | null | undefined;
};

const lifetimeOf = ({ metric, countFrom }: EventStep): Metric | undefined => {
  if (countFrom !== "LIFETIME" || metric.aggregate === "streak") return undefined;
  return { ...metric, window: { type: "LIFETIME" } };
};

const sampleOf = ({ metric }: EventStep): NonNullable<CompiledStep["sampleOf"]> => {
  if (metric.aggregate !== "streak") return compileSample(metric);
  const { eventTypes, filter } = metric;
  return compileSample({ eventTypes, filter, aggregate: "count" });
};

/** Values at which steps are done that players do themselves. */
const TARGETS = {
  MANUAL: ({ target }: ManualStep): number => target,
  CODE: (): number => 1,
  QUIZ: ({ passScore }: QuizStep): number => passScore,
};

const compileStep = (definition: QuestStep, spender: Spender): CompiledStep => {
  if (definition.kind === "STATE") {
    const { condition } = definition;
    return { definition, target: 1, test: compileGroup(condition) };
  }
  if (definition.kind !== "EVENT")
    return { definition, target: TARGETS[definition.kind](definition as never) };
  const lifetime = lifetimeOf(definition);
  const counts = lifetime
    ? { lifetime: compileMetric(lifetime, spender) }
    : { sampleOf: sampleOf(definition) };
  return { definition, target: definition.target, ...counts };
};

const mayStartOf = (definition: Quest): Test => {
  const isForPlayer = audienceTest(definition.audience);
  const isOffered: Test = (turn) => turn.isQuestOpen(definition.key) && isForPlayer(turn);
  if (!definition.prerequisites) return isOffered;
  const isReady = compileGroup(definition.prerequisites);
  return (turn) => isOffered(turn) && isReady(turn);
};

const groupsOf = ({ prerequisites, steps }: Quest): Group[] => [
  ...(prerequisites ? [prerequisites] : []),
  ...steps.flatMap((step) => (step.kind === "STATE" ? [step.condition] : [])),
];

/** Its own state decides about its next start. */
const inputNames = (definition: Quest): string[] => {
  const { key, audience } = definition;
  const names = groupsOf(definition).flatMap((group) => inputsOf(group).names);
  const segments = (audience?.segmentKeys ?? []).map((segmentKey) => `segment:${segmentKey}`);
  return [...new Set([...names, ...segments, `quest:${key}`])];
};

const isTimedQuest = (definition: Quest): boolean => {
  const { repeat, availableFrom, availableUntil, timeLimitSeconds } = definition;
  const hasTimes =
    availableFrom !== undefined || availableUntil !== undefined || timeLimitSeconds !== undefined;
  return hasTimes || repeat.mode !== "NONE" || groupsOf(definition).some((group) => inputsOf(group).isTimed);
};

const metricsIn = ({ steps }: Quest, compiled: readonly CompiledStep[]): Metric[] => [
  ...compiled.flatMap(({ lifetime }) => (lifetime ? [lifetime.definition] : [])),
  ...steps.flatMap((step) => (step.kind === "STATE" ? conditionMetrics(step.condition) : [])),
];

/** Returns whether a quest starts as soon as a player may start it: nothing else would begin it. */
export const startsAtOnce = ({ start, steps }: Quest): boolean =>
  start.mode === "AUTO" && steps.every(({ kind }) => kind !== "EVENT");

/** Compiles a quest with the earlier versions of it that are kept. */
export const compileQuest = (stored: StoredQuest): CompiledQuest => {
  const { id, version = 1, definition, phase, endedMs, earlier } = stored;
  // What players do outlasts the end of a quest, by its own times.
  const pauses = (stored.pauses ?? []).filter(({ isEnd }) => isEnd !== true);
  const { key } = definition;
  const spender: Spender = { kind: "quest", id, key };
  const steps = definition.steps.map((step) => compileStep(step, spender));
  const listeners = definition.steps.flatMap((step, place) =>
    step.kind === "EVENT" ? [{ place, patterns: step.metric.eventTypes }] : [],
  );
  const older = (earlier ?? []).map((one) =>
    compileQuest({ id, phase, endedMs, pauses, version: one.version, definition: one.definition as Quest }),
  );
  return {
    id,
    key,
    version,
    definition,
    phase: phase ?? "RUNNING",
    pauses,
    endedMs: endedMs ?? Infinity,
    fromMs: msOf(definition.availableFrom, -Infinity),
    untilMs: msOf(definition.availableUntil, Infinity),
    steps,
    required: requiredOf(definition),
    stepsFor: createTypeIndex(listeners, (found) => found.map(({ place }) => place)),
    mayStart: mayStartOf(definition),
    isStateful:
      definition.steps.some(({ kind }) => kind === "STATE") ||
      startsAtOnce(definition) ||
      older.some((one) => one.isStateful),
    inputs: [...new Set([...inputNames(definition), ...older.flatMap(({ inputs }) => inputs)])],
    isTimed: isTimedQuest(definition) || older.some((one) => one.isTimed),
    metrics: [...metricsIn(definition, steps), ...older.flatMap(({ metrics }) => metrics)],
    earlier: new Map(older.map((one) => [one.version, one])),
    spender,
  };
};

/** Returns the versions by which players in progress may go on; who has another adopts the current one. */
export const keptVersions = ({ version, earlier, definition }: CompiledQuest): number[] =>
  definition.onVersionChange === "KEEP" ? [version, ...earlier.keys()] : [version];

/** The version of a quest that a player does; undefined when it is no longer kept. */
export const versionOf = (quest: CompiledQuest, version: number): CompiledQuest | undefined =>
  version === quest.version ? quest : quest.earlier.get(version);

/** Returns the counter of the players who have started a quest, if there is a limit of them. */
export const placesKey = (projectId: string, { key, definition }: CompiledQuest): SharedKey | undefined =>
  definition.maxParticipants === undefined ? undefined : limitedKey(projectId, "quest", key);

/** Returns whether the turn's player has a place in a quest, or there is one left. */
export const hasPlace = ({ player, project, shared }: Turn, quest: CompiledQuest): boolean => {
  const key = placesKey(project.projectId, quest);
  if (!key || player.quests.has(quest.key)) return true;
  return shared.used(key) < quest.definition.maxParticipants!;
};

/**
 * Returns whether all places of a quest are known to be taken, and none is the turn's player's. They are not
 * where a player is changed with no counters at hand.
 */
export const isFull = (turn: Turn, quest: CompiledQuest): boolean => {
  const key = placesKey(turn.project.projectId, quest);
  return key !== undefined && turn.shared.has(key) && !hasPlace(turn, quest);
};

/** Returns whether a quest that is not begun is AVAILABLE to the turn's player; else it is LOCKED. */
export const isQuestAvailable = (turn: Turn, quest: CompiledQuest): boolean =>
  quest.mayStart(turn) && !isFull(turn, quest);

/**
 * As `hasPlace`, for a start by itself: where the counter is not locked, since a player is only looked at,
 * the quest starts with the next event.
 */
export const hasPlaceNow = (turn: Turn, quest: CompiledQuest): boolean => {
  const key = placesKey(turn.project.projectId, quest);
  return key === undefined || (turn.shared.has(key) && hasPlace(turn, quest));
};

/** Takes a place for the turn's player, who keeps it in all cycles. */
export const takePlace = ({ player, project, shared }: Turn, quest: CompiledQuest): void => {
  const key = placesKey(project.projectId, quest);
  if (key && !player.quests.has(quest.key)) shared.add(key, 1);
};

/** A quest that states can start or advance, and the indexes of what it reads in `readers`. */
export type StatefulQuest = { quest: CompiledQuest; inputs: readonly number[]; isTimed: boolean };

/** The quests of a project. */
export type QuestIndex = {
  byKey: ReadonlyMap<string, CompiledQuest>;
  /** Returns the quests that count events of a type; those that it does not touch cost nothing. */
  forEvent(eventType: string): readonly CompiledQuest[];
  stateful: readonly StatefulQuest[];
  readers: readonly InputReader[];
};

const patternsOf = (quest: CompiledQuest): string[] =>
  [quest, ...quest.earlier.values()].flatMap(({ definition }) =>
    definition.steps.flatMap((step) => (step.kind === "EVENT" ? step.metric.eventTypes : [])),
  );

/** To be built once per config version. */
export const indexQuests = (
  byKey: ReadonlyMap<string, CompiledQuest>,
  adventures: AdventureIndex,
): QuestIndex => {
  const quests = [...byKey.values()];
  const stateful = quests.filter(({ isStateful }) => isStateful);
  const questInputs = ({ key, inputs }: CompiledQuest): string[] => [
    ...inputs,
    ...adventures.ofQuest(key).map((adventure) => `adventure:${adventure.key}`),
  ];
  const { placeOf, readers } = indexInputs(stateful.flatMap(questInputs));
  const listeners = quests.map((quest) => ({ quest, patterns: patternsOf(quest) }));
  return {
    byKey,
    forEvent: createTypeIndex(listeners, (found) => found.map(({ quest }) => quest)),
    stateful: stateful.map((quest) => ({
      quest,
      isTimed: quest.isTimed || adventures.ofQuest(quest.key).length > 0,
      inputs: questInputs(quest).map((name) => placeOf.get(name)!),
    })),
    readers,
  };
};

export const STEP_STATES = ["LOCKED", "ACTIVE", "PENDING_APPROVAL", "DONE", "FAILED"] as const;
export type StepState = (typeof STEP_STATES)[number];

/**
 * Returns the state of each step of a row. Those with which a quest begins are ACTIVE where it may be
 * started: `isAvailable` decides about a quest without a row.
 */
export const stepStates = (
  quest: CompiledQuest,
  row: QuestRow | undefined,
  isAvailable = false,
): StepState[] => {
  const isOpen = row ? row.state === "IN_PROGRESS" || row.state === "RESET" : isAvailable;
  const active = activeSteps(quest.definition, (key) => row?.steps[key]?.doneMs !== undefined);
  return quest.steps.map((step, i) => {
    const progress = row?.steps[step.definition.key] ?? {};
    if (progress.doneMs !== undefined) return "DONE";
    if (progress.failedMs !== undefined) return "FAILED";
    if (!isOpen || active[i] !== true) return "LOCKED";
    return isAllWaiting(step, progress) ? "PENDING_APPROVAL" : "ACTIVE";
  });
};

/** Whether as much waits for a review as is missing. */
const isAllWaiting = ({ target }: CompiledStep, { value = 0, pending = [] }: StepProgress): boolean =>
  pending.length > 0 && value + pending.length >= target;

/** Returns how often a player may still try a step; undefined where there is no limit. */
export const attemptsLeft = ({ definition }: CompiledStep, row: QuestRow | undefined): number | undefined => {
  if (definition.kind !== "CODE" && definition.kind !== "QUIZ") return undefined;
  const { maxAttempts } = definition;
  if (maxAttempts === undefined) return undefined;
  return Math.max(0, maxAttempts - (row?.steps[definition.key]?.attempts ?? 0));
};
