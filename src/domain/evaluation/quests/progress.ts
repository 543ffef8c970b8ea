import { adjustCurrency } from "../currencies/adjust.ts";
import { givenBy, giveRewards } from "../goals.ts";
import { addSample, type AggregateState, toSum } from "../metrics/aggregates.ts";
import { type CompiledQuest, type CompiledStep, keptVersions, takePlace, versionOf } from "./compile.ts";
import { type NextCycle, calendarFor, doneBy, endOf, isOffered, isRested, nextCycle } from "./context.ts";
import type { QuestRow, StartedBy } from "./row.ts";
import { activeSteps, canComplete, type EventStep, isComplete } from "./step.ts";
import {
  completeQuest,
  countOf,
  currentValue,
  dropCounts,
  emitQuest,
  expireQuest,
  failQuest,
  isReached,
  questPercent,
  storeLatest,
  storeNext,
  storeProgress,
  storeRow,
  subjectOf,
} from "./store.ts";
import { causeOf, growthOf, reportUncounted, reserveRoom, type Turn } from "../turn.ts";
import { newId } from "../../kernel/ids.ts";
import { isoOf } from "../../kernel/iso-time.ts";
import { windowNumber } from "../../kernel/zones.ts";

const isDoneIn =
  ({ steps }: QuestRow) =>
  (key: string): boolean =>
    steps[key]?.doneMs !== undefined;

/** Returns whether the required steps of a row are done. */
const isDone = (quest: CompiledQuest, row: QuestRow): boolean => isComplete(quest.definition, isDoneIn(row));

/** Returns a row in which the steps that are active now are marked as such. */
const withActive = (
  quest: CompiledQuest,
  row: QuestRow,
  { active, atMs }: { active: readonly boolean[]; atMs: number },
): QuestRow => {
  const fresh = quest.steps.filter(
    ({ definition: { key } }, i) => active[i] === true && row.steps[key]?.startMs === undefined,
  );
  if (fresh.length === 0) return row;
  const started = fresh.map(({ definition: { key } }) => [key, { ...row.steps[key], startMs: atMs }]);
  return { ...row, steps: { ...row.steps, ...Object.fromEntries(started) } };
};

/** Returns a row that begins at a moment, with its first steps active. */
const withFirst = (quest: CompiledQuest, row: QuestRow, atMs: number): QuestRow =>
  withActive(quest, row, { active: activeSteps(quest.definition, isDoneIn(row)), atMs });

/** Maximum bytes of JSON that an event adds to a step's count: a hash, or a new count with its names. */
const GROWTH_MAX = 200;

const nextStreak = (turn: Turn, { metric }: EventStep, old: AggregateState | undefined): AggregateState => {
  if (metric.aggregate !== "streak") throw new Error("not a streak");
  const period = windowNumber(metric.period, calendarFor(metric.timezone, turn), turn.event.at);
  const [last, length] = (old as readonly [number, number] | undefined) ?? [-Infinity, 0];
  if (period <= last) return old!;
  return [period, period === last + 1 ? length + 1 : 1];
};

type Count = { row: QuestRow; stepKey: string; old: AggregateState | undefined; next: AggregateState };

/** Stores what a step has counted. @returns whether there was room for it */
const keepCount = (turn: Turn, quest: CompiledQuest, { row, stepKey, old, next }: Count): boolean => {
  const { player } = turn;
  const grown = () => growthOf(`"${row.id}":{"${stepKey}":},`, old, next);
  if (!reserveRoom(turn, { most: GROWTH_MAX, grown })) {
    reportUncounted(turn, `quest ${quest.key}`, quest.spender);
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
  if (!isPaid) giveRewards(turn, "QUEST", { key: quest.key, row, what: `s:${key}`, bundle: rewards });
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
  for (const [place, step] of quest.steps.entries()) {
    if (active[place] !== true) continue;
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
    return failQuest(turn, quest, row, { ...causeOf(turn, "QUEST", quest.key), note: "attempts used up" });
  const percent = questPercent(turn, quest, row);
  if (row !== before || percent !== before.percent) storeProgress(turn, quest.key, { ...row, percent });
};

/** Maximum earlier cycles of a quest whose rewards wait to be claimed; beyond it the oldest is lost. */
const OPEN_CYCLES_MAX = 20;

const settleOlder = (turn: Turn, quest: CompiledQuest, older: readonly QuestRow[]): void => {
  const unclaimed = older.filter(({ state }) => state === "COMPLETED");
  const excess = unclaimed.length - OPEN_CYCLES_MAX;
  unclaimed.forEach((row, i) => {
    if (i < excess || turn.event.at >= endOf(quest, row)) expireQuest(turn, quest, row);
  });
};

/** Keeps progress of steps with the same key; of one that is of another kind now only whether it is done. */
const carriedSteps = (
  from: CompiledQuest | undefined,
  to: CompiledQuest,
  { steps }: QuestRow,
): QuestRow["steps"] => {
  const kindsOf = (quest: CompiledQuest | undefined): Map<string, string> =>
    new Map(quest?.definition.steps.map(({ key, kind }) => [key, kind]));
  const [before, now] = [kindsOf(from), kindsOf(to)];
  return Object.fromEntries(
    Object.entries(steps).flatMap(([key, progress]) => {
      const kind = now.get(key);
      if (kind === undefined) return [];
      if ((before.get(key) ?? kind) === kind) return [[key, progress]];
      const { value: _value, attempts: _tried, failedMs: _failed, pending: _waits, ...kept } = progress;
      return [[key, kept]];
    }),
  );
};

/** Applies the current version to a row that was begun with another one. */
const adoptVersion = (turn: Turn, quest: CompiledQuest, row: QuestRow): void => {
  if (keptVersions(quest).includes(row.version)) return;
  const { version } = quest;
  if (quest.definition.onVersionChange === "RESTART") {
    dropCounts(turn, row);
    const fresh: QuestRow = { ...row, version, percent: 0, steps: {}, startedMs: turn.event.at };
    return storeRow(turn, quest.key, withFirst(quest, fresh, turn.event.at));
  }
  const steps = carriedSteps(versionOf(quest, row.version), quest, row);
  const carried: QuestRow = { ...row, version, steps };
  storeRow(turn, quest.key, carried);
  // What was done may complete the new version.
  if (isDone(quest, carried)) return completeQuest(turn, quest, carried);
  settleSteps(turn, quest, carried);
};

/**
 * Expires what is over at the time of the turn's event. Doing so at moments in between does not change the
 * outcome.
 * @returns the row that is still in progress, if there is one
 */
export const expireDue = (turn: Turn, quest: CompiledQuest): QuestRow | undefined => {
  const state = turn.player.quests.get(quest.key);
  if (!state) return undefined;
  const { latest, older } = state;
  settleOlder(turn, quest, older);
  if (turn.event.at >= endOf(quest, latest)) expireQuest(turn, quest, latest);
  else if (latest.state === "IN_PROGRESS") return latest;
  return undefined;
};

/**
 * Brings a player's quest to the time of the turn's event: what is over expires, and what is in progress goes
 * on with the version that applies.
 */
export const settleQuest = (turn: Turn, quest: CompiledQuest): void => {
  const running = expireDue(turn, quest);
  if (running && quest.phase === "RUNNING") adoptVersion(turn, quest, running);
};

/** A player's quest in progress, with the version by which it is done. */
export type Running = { version: CompiledQuest; row: QuestRow };

/** Returns a player's quest where it is in progress. */
export const inProgress = (turn: Turn, quest: CompiledQuest): Running | undefined => {
  const latest = turn.player.quests.get(quest.key)?.latest;
  return latest?.state === "IN_PROGRESS" ? { version: doneBy(quest, latest), row: latest } : undefined;
};

/** Returns the cycle that the turn's player may start now, besides audience and prerequisites. */
export const freeCycle = (turn: Turn, quest: CompiledQuest): NextCycle | undefined => {
  const { at } = turn.event;
  const state = turn.player.quests.get(quest.key);
  if (!isOffered(quest, at) || !isRested(quest, state?.latest, at)) return undefined;
  return nextCycle(quest, turn, state, at);
};

/** When a row that starts at a moment expires; null for never. */
const expiryOf = ({ definition }: CompiledQuest, endMs: number, atMs: number): number | null => {
  const { timeLimitSeconds = Infinity } = definition;
  const expiresMs = Math.min(endMs, atMs + timeLimitSeconds * 1_000);
  return expiresMs === Infinity ? null : expiresMs;
};

/** What a row that is started again in its cycle keeps. */
const keptOf = (row: QuestRow | undefined): Pick<QuestRow, "rewarded" | "isPaid" | "again"> => ({
  rewarded: row?.rewarded ?? [],
  ...(row?.isPaid ? { isPaid: true } : {}),
  ...(row?.again === undefined ? {} : { again: row.again }),
});

const rowOf = (
  quest: CompiledQuest,
  turn: Turn,
  { cycle, again }: NextCycle,
  startedBy: StartedBy,
): QuestRow => {
  const { at } = turn.event;
  const { completions = 0, lastCompletedMs = null } = turn.player.quests.get(quest.key)?.latest ?? {};
  const row: QuestRow = {
    // A cycle keeps its row, so that its rewards are granted once.
    id: again?.id ?? newId(),
    version: quest.version,
    cycleKey: cycle.key,
    state: "IN_PROGRESS",
    percent: 0,
    startedMs: at,
    startedBy,
    expiresMs: expiryOf(quest, cycle.endMs, at),
    completedMs: null,
    claimedMs: null,
    claimUntilMs: null,
    completions,
    lastCompletedMs,
    steps: {},
    ...keptOf(again),
    ...(turn.root.isTracked ? { eventId: turn.root.id } : {}),
  };
  return withFirst(quest, row, at);
};

/** Why a start is refused. */
export type StartProblem = {
  reason: "QUEST_NOT_AVAILABLE" | "LIMIT_REACHED" | "INSUFFICIENT_FUNDS";
  message: string;
};

/** Takes the entry cost of a row that has not been paid for. */
const payEntry = (turn: Turn, quest: CompiledQuest, row: QuestRow): StartProblem | undefined => {
  const { cost } = quest.definition.start;
  if (!cost || row.isPaid) return undefined;
  const { currencyKey, amount } = cost;
  const price = givenBy(turn, "QUEST", { key: quest.key, row, what: "start" });
  if (adjustCurrency(turn, { currencyKey, amount: -amount, ...price }).problem === undefined)
    return undefined;
  const message = `the start costs ${amount} of the currency ${currencyKey}, which the player does not have`;
  return { reason: "INSUFFICIENT_FUNDS", message };
};

/**
 * Starts a quest at the wish of a request or rule: its entry cost is paid.
 * @returns the row, or why it is refused
 */
export const startPaid = (
  turn: Turn,
  quest: CompiledQuest,
  next: NextCycle,
  startedBy: StartedBy,
): QuestRow | StartProblem => {
  const row = rowOf(quest, turn, next, startedBy);
  const problem = payEntry(turn, quest, row);
  if (problem) return problem;
  const isPaid = quest.definition.start.cost === undefined ? {} : { isPaid: true as const };
  return beginRow(turn, quest, next, { ...row, ...isPaid });
};

/** Starts a quest for the turn's player. @returns the row, which has been stored */
export const startQuest = (
  turn: Turn,
  quest: CompiledQuest,
  next: NextCycle,
  startedBy: StartedBy,
): QuestRow => beginRow(turn, quest, next, rowOf(quest, turn, next, startedBy));

const beginRow = (turn: Turn, quest: CompiledQuest, next: NextCycle, row: QuestRow): QuestRow => {
  takePlace(turn, quest);
  if (next.again) storeLatest(turn, quest.key, row);
  else storeNext(turn, quest.key, row);
  emitQuest(turn, "quest.started", {
    ...subjectOf(turn, quest, row),
    questId: quest.id,
    questVersion: row.version,
    startedBy: row.startedBy,
    expiresAt: isoOf(row.expiresMs),
    startedAt: isoOf(row.startedMs),
  });
  return row;
};
