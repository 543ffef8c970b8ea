import { PLAYER_STATE_MAX_BYTES } from "../../kernel/limits.ts";
import { addSample, type AggregateState, toSum } from "../metrics/aggregates.ts";
import { jsonLength, reserveRoom } from "../doc-room.ts";
import { reportUncounted } from "../event-steps.ts";
import { periodAt } from "../streaks/periods.ts";
import type { Turn } from "../turn.ts";
import type { CompiledQuest, CompiledStep } from "./compile.ts";
import { zoneFor } from "./context.ts";
import { completeQuest, failQuest } from "./finish.ts";
import { causeOf, giveRewards } from "./rewards.ts";
import type { QuestRow } from "./row.ts";
import { activeSteps, canComplete, isComplete } from "./step-graph.ts";
import type { EventStep } from "./step.ts";
import { emitQuest, storeProgress, storeRow, subjectOf } from "./store.ts";
import { countOf, currentValue, isReached, questPercent } from "./values.ts";

const isDoneIn =
  ({ steps }: QuestRow) =>
  (key: string): boolean =>
    steps[key]?.doneMs !== undefined;

/** Returns whether the required steps of a row are done. */
export const isDone = (quest: CompiledQuest, row: QuestRow): boolean =>
  isComplete(quest.definition, isDoneIn(row));

/** Returns a row in which the steps that are active now are marked as such. */
const withActive = (
  quest: CompiledQuest,
  row: QuestRow,
  { active, atMs }: { active: readonly boolean[]; atMs: number },
): QuestRow => {
  const isFresh = (key: string, i: number): boolean =>
    active[i] === true && row.steps[key]?.startMs === undefined;
  if (!quest.steps.some(({ definition: { key } }, i) => isFresh(key, i))) return row;
  const fresh = quest.steps.filter(({ definition: { key } }, i) => isFresh(key, i));
  const started = fresh.map(({ definition: { key } }) => [key, { ...row.steps[key], startMs: atMs }]);
  return { ...row, steps: { ...row.steps, ...Object.fromEntries(started) } };
};

/** Returns a row that begins at a moment, with its first steps active. */
export const withFirst = (quest: CompiledQuest, row: QuestRow, atMs: number): QuestRow =>
  withActive(quest, row, { active: activeSteps(quest.definition, isDoneIn(row)), atMs });

/** Maximum bytes of JSON that an event adds to a step's count: a hash, or a new count with its names. */
const GROWTH_MAX = 200;

const nextStreak = (turn: Turn, { metric }: EventStep, old: AggregateState | undefined): AggregateState => {
  if (metric.aggregate !== "streak") throw new Error("not a streak");
  const zone = zoneFor(metric.timezone, turn);
  const period = periodAt({ unit: metric.period, dayStartsMs: 0 }, zone, turn.event.at);
  const [last, length] = (old as readonly [number, number] | undefined) ?? [-Infinity, 0];
  if (period <= last) return old!;
  return [period, period === last + 1 ? length + 1 : 1];
};

type Count = { row: QuestRow; stepKey: string; old: AggregateState | undefined; next: AggregateState };

/** Stores what a step has counted. @returns whether there was room for it */
const keepCount = (turn: Turn, quest: CompiledQuest, { row, stepKey, old, next }: Count): boolean => {
  const { player } = turn;
  const names = `"${row.id}":{"${stepKey}":},`.length;
  const grown = () => jsonLength(next) - (old === undefined ? -names : jsonLength(old));
  if (!reserveRoom(turn, { most: GROWTH_MAX, grown })) {
    turn.warn(
      `full: quest ${quest.key} does not count, ${PLAYER_STATE_MAX_BYTES} bytes are kept of a player`,
    );
    reportUncounted(turn, quest.spender);
    return false;
  }
  const counts = (player.doc.q ??= {});
  counts[row.id] = { ...counts[row.id], [stepKey]: next };
  player.dirty.doc = true;
  return true;
};

const count = (turn: Turn, quest: CompiledQuest, row: QuestRow, step: CompiledStep): void => {
  const definition = step.definition as EventStep;
  const sample = step.sampleOf!(turn);
  if (sample === undefined) return;
  const { key: stepKey, metric } = definition;
  const old = countOf(turn, row, stepKey);
  const next =
    metric.aggregate === "streak"
      ? nextStreak(turn, definition, old)
      : addSample(metric.aggregate, old, sample, turn.event.at);
  if (next !== old) keepCount(turn, quest, { row, stepKey, old, next });
};

/** Aggregates to which an amount can be added without an event. */
const ADDABLE: ReadonlySet<string> = new Set(["count", "sum"]);

/** Returns why nothing can be added to a step without an event; undefined if it can. */
const addingProblem = (row: QuestRow, { definition, sampleOf }: CompiledStep): string | undefined => {
  const { key } = definition;
  if (definition.kind !== "EVENT" || !sampleOf || !ADDABLE.has(definition.metric.aggregate))
    return `the step ${key} counts by itself: only count and sum since a start can be changed`;
  const { startMs, doneMs } = row.steps[key] ?? {};
  return startMs === undefined || doneMs !== undefined ? `the step ${key} is not active` : undefined;
};

/**
 * Adds to what a step has counted, or sets it, without an event.
 * @returns why that is not possible
 */
export const addToStep = (
  turn: Turn,
  quest: CompiledQuest,
  { row, stepKey, by }: { row: QuestRow; stepKey: string; by: { amount: number } | { set: number } },
): string | undefined => {
  const step = quest.steps.find(({ definition }) => definition.key === stepKey);
  if (!step) return `there is no step ${stepKey}`;
  const problem = addingProblem(row, step);
  if (problem !== undefined) return problem;
  const old = countOf(turn, row, stepKey);
  const next = toSum(Math.max(0, "set" in by ? by.set : Number(old ?? 0) + by.amount));
  return keepCount(turn, quest, { row, stepKey, old, next }) ? undefined : "the player's document is full";
};

/** Returns whether an event at its time counts for a step of a row. */
export const isCounting = (
  { event }: Turn,
  row: QuestRow,
  { definition, sampleOf }: CompiledStep,
): boolean => {
  if (definition.kind !== "EVENT" || !sampleOf) return false;
  const progress = row.steps[definition.key];
  if (progress?.doneMs !== undefined) return false;
  const since = definition.countFrom === "QUEST_START" ? row.startedMs : progress?.startMs;
  return since !== undefined && event.at >= since;
};

/** Counts the turn's event in the steps of a row that count its type. */
export const countEventFor = (turn: Turn, quest: CompiledQuest, row: QuestRow): void => {
  for (const place of quest.stepsFor(turn.event.type)) {
    const step = quest.steps[place]!;
    if (isCounting(turn, row, step)) count(turn, quest, row, step);
  }
};

const isStepDone = (turn: Turn, row: QuestRow, step: CompiledStep): boolean =>
  step.test ? step.test(turn) : isReached(step, currentValue(turn, row, step));

const finishStep = (turn: Turn, quest: CompiledQuest, before: QuestRow, step: CompiledStep): QuestRow => {
  const { key, rewards } = step.definition;
  const value = step.test ? 1 : (currentValue(turn, before, step) ?? 0);
  const { pending: _withdrawn, ...progress } = before.steps[key] ?? {};
  const done = { ...progress, doneMs: turn.event.at, value };
  const isPaid = before.rewarded.includes(key) || rewards === undefined;
  const row: QuestRow = {
    ...before,
    steps: { ...before.steps, [key]: done },
    rewarded: isPaid ? before.rewarded : [...before.rewarded, key],
  };
  storeRow(turn, quest.key, row);
  emitQuest(turn, "quest.step_completed", {
    ...subjectOf(turn, quest, row),
    stepKey: key,
    rewards: isPaid ? null : rewards,
  });
  if (!isPaid) giveRewards(turn, quest, { bundle: rewards, row, what: `s:${key}` });
  return row;
};

/** Finishes the required steps that are not done, as many as complete the quest, and completes it. */
export const forceSteps = (turn: Turn, quest: CompiledQuest, before: QuestRow): void => {
  let row = before;
  for (const step of quest.steps) {
    if (isComplete(quest.definition, isDoneIn(row))) break;
    const { key, optional } = step.definition;
    if (!optional && !isDoneIn(row)(key)) row = finishStep(turn, quest, row, step);
  }
  completeQuest(turn, quest, row);
};

/** Finishes the active steps that are done. @returns the row itself when there are none */
const finishActive = (
  turn: Turn,
  quest: CompiledQuest,
  before: QuestRow,
  active: readonly boolean[],
): QuestRow => {
  let row = before;
  const { upkeep } = turn.root.accounts;
  for (const [place, step] of quest.steps.entries()) {
    if (active[place] !== true) continue;
    upkeep.spend(step.cost);
    if (isStepDone(turn, row, step)) row = finishStep(turn, quest, row, step);
  }
  return row;
};

/**
 * Finishes the steps of a row in progress that are done, and those that become active and are done thereby;
 * completes the quest with the last required one. The row is stored when a step or its percent has changed.
 */
export const settleSteps = (turn: Turn, quest: CompiledQuest, before: QuestRow): void => {
  let row = before;
  for (;;) {
    const active = activeSteps(quest.definition, isDoneIn(row));
    row = withActive(quest, row, { active, atMs: turn.event.at });
    const next = finishActive(turn, quest, row, active);
    if (next === row) break;
    row = next;
    if (isComplete(quest.definition, isDoneIn(row))) return completeQuest(turn, quest, row);
  }
  if (!canComplete(quest.definition, (key) => row.steps[key]?.failedMs !== undefined && !isDoneIn(row)(key)))
    return failQuest(turn, { quest, row, cause: { ...causeOf(turn, quest), note: "attempts used up" } });
  const percent = questPercent(turn, quest, row);
  if (row !== before || percent !== before.percent) storeProgress(turn, quest.key, { ...row, percent });
};
