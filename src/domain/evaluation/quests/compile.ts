import type { Spender } from "../event-accounts.ts";
import type { Test } from "../conditions/condition.ts";
import { conditionMetrics } from "../language/condition-metrics.ts";
import { compileGroup, type Group, groupSteps } from "../language/groups.ts";
import { createTypeIndex } from "../language/patterns.ts";
import type { Sample } from "../metrics/aggregates.ts";
import { type CompiledMetric, compileMetric, compileSample } from "../metrics/compile.ts";
import { filterSteps } from "../metrics/filter.ts";
import type { Metric } from "../metrics/metric.ts";
import type { EventContext } from "../rule-event.ts";
import type { Pause, Phase, StoredDraft } from "../live.ts";
import { audienceTest } from "../segments/audience.ts";
import { inputsOf } from "../segments/inputs.ts";
import type { Quest } from "./quest.ts";
import type { EventStep, ManualStep, QuestStep, QuizStep } from "./step.ts";

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
  /** Maximum steps of evaluation. */
  cost: number;
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
  /** Returns the indexes of the EVENT steps that count events of a type. */
  stepsFor(eventType: string): readonly number[];
  /** Whether it may start for the player: audience and prerequisites. */
  mayStart: Test;
  mayStartCost: number;
  /** Whether a state alone can start or advance it, so that changes of `inputs` matter. */
  isStateful: boolean;
  /** Names of what its conditions read; see segments/inputs.ts. */
  inputs: readonly string[];
  /** Whether time alone can start or advance it. */
  isTimed: boolean;
  metrics: readonly Metric[];
  /** Earlier versions that players may still be doing. */
  earlier: ReadonlyMap<number, CompiledQuest>;
  spender: Spender;
};

/** A stored quest; `earlier`: the versions before this one that are kept. */
export type StoredQuest = StoredDraft<Quest> & {
  earlier?: readonly { version: number; definition: object }[] | null | undefined;
};

const STEP_STEPS = 15;

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
    return { definition, target: 1, test: compileGroup(condition), cost: STEP_STEPS + groupSteps(condition) };
  }
  if (definition.kind !== "EVENT")
    return { definition, target: TARGETS[definition.kind](definition as never), cost: STEP_STEPS };
  const cost = STEP_STEPS + filterSteps(definition.metric.filter);
  const lifetime = lifetimeOf(definition);
  const counts = lifetime
    ? { lifetime: compileMetric(lifetime, spender) }
    : { sampleOf: sampleOf(definition) };
  return { definition, target: definition.target, ...counts, cost };
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

const timeOf = (text: string | undefined, otherwise: number): number =>
  text === undefined ? otherwise : Date.parse(text);

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
    fromMs: timeOf(definition.availableFrom, -Infinity),
    untilMs: timeOf(definition.availableUntil, Infinity),
    steps,
    stepsFor: createTypeIndex(listeners, (found) => found.map(({ place }) => place)),
    mayStart: mayStartOf(definition),
    mayStartCost: definition.prerequisites ? groupSteps(definition.prerequisites) : 1,
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
