import { emitGoal, giveRewards, storeGoal } from "../goals.ts";
import { type AggregateState, aggregateValue } from "../metrics/aggregates.ts";
import { readMetric } from "../metrics/count.ts";
import type { QuestState } from "../player-state.ts";
import type { CompiledQuest, CompiledStep } from "./compile.ts";
import type { QuestRow, StepProgress } from "./row.ts";
import { playerOf, type Turn, write } from "../turn.ts";
import type { EventData, EventType } from "../../kernel/events/domain-events.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { isoOf } from "../../kernel/iso-time.ts";

/** Fields by which events of quests name their subject. */
export const subjectOf = (turn: Turn, quest: Pick<CompiledQuest, "key">, row: QuestRow) => ({
  ...playerOf(turn),
  playerQuestId: row.id,
  questKey: quest.key,
  cycleKey: row.cycleKey,
});

/** Publishes a change of a quest, and notes for adventures what has begun or ended. */
export const emitQuest = <T extends EventType>(turn: Turn, type: T, data: EventData<T>): void => {
  emitGoal(turn, type, data);
  const isCompleted = type === "quest.completed";
  if (!isCompleted && type !== "quest.started") return;
  const { questKey, playerQuestId } = data as EventData<"quest.started">;
  (turn.root.questNews ??= []).push({ questKey, playerQuestId, isCompleted });
};

/** Ids of the submissions that wait for a review: only a cycle in progress has such. */
const pendingIn = (state: QuestState | undefined): string[] => {
  if (state?.latest.state !== "IN_PROGRESS") return [];
  return Object.values(state.latest.steps).flatMap(({ pending = [] }) => pending);
};

/** Withdraws the submissions that wait in one state of a quest and no more in the next. */
export const withdrawDropped = (
  turn: Turn,
  before: QuestState | undefined,
  now: QuestState | undefined,
): void => {
  const waited = pendingIn(before);
  if (waited.length === 0) return;
  const { player, effects, nowMs: atMs } = turn;
  const settled = new Set([...pendingIn(now), ...effects.submissionDecisions.map(({ id }) => id)]);
  for (const id of waited) {
    if (settled.has(id)) continue;
    const decision = { status: "WITHDRAWN", by: null, note: null } as const;
    write(turn, "submissionDecisions", { id, projectId: player.projectId, ...decision, atMs });
  }
};

const storeQuest = (turn: Turn, key: string, state: QuestState): void => {
  withdrawDropped(turn, turn.player.quests.get(key), state);
  storeGoal(turn, "quests", key, state);
};

/** Stores the row of the latest cycle. */
export const storeLatest = (turn: Turn, key: string, row: QuestRow): void =>
  storeQuest(turn, key, {
    latest: { ...row, isChanged: true },
    older: turn.player.quests.get(key)?.older ?? [],
  });

/** Stores the latest row, in progress before and after, of which only `percent` and `steps` have changed. */
export const storeProgress = (turn: Turn, key: string, row: QuestRow): void => {
  const { latest, older } = turn.player.quests.get(key)!;
  const isChanged = latest.isChanged === true ? true : "PROGRESS";
  storeQuest(turn, key, { latest: { ...row, isChanged }, older });
};

/** Stores a changed row, whether it is the latest or an older one. */
export const storeRow = (turn: Turn, key: string, row: QuestRow): void => {
  const { latest, older } = turn.player.quests.get(key)!;
  if (row.id === latest.id) return storeLatest(turn, key, row);
  const changed = older.map((one) => (one.id === row.id ? { ...row, isChanged: true as const } : one));
  storeQuest(turn, key, { latest, older: changed });
};

/** Stores the row of a new cycle; the previous one is kept beside it. */
export const storeNext = (turn: Turn, key: string, row: QuestRow): void => {
  const before = turn.player.quests.get(key);
  const older = before ? [...before.older, { ...before.latest, isChanged: true as const }] : [];
  storeQuest(turn, key, { latest: { ...row, isChanged: true }, older });
};

/** Drops what the steps of a row have counted: it is over, or begins anew. */
export const dropCounts = ({ player }: Turn, { id }: QuestRow): void => {
  if (player.doc.q?.[id] === undefined) return;
  delete player.doc.q[id];
  player.dirty.doc = true;
};

/** The player whose steps are read. */
type Reader = Pick<Turn, "player" | "project" | "event">;

/** The count of a streak: its last period, and its length. */
type StreakCount = readonly [period: number, length: number];

/** Returns what a step has counted. */
export const countOf = (
  { player }: Pick<Reader, "player">,
  row: QuestRow,
  key: string,
): AggregateState | undefined => player.doc.q?.[row.id]?.[key];

/** Returns the value of a step that is not done; undefined for `min` and the like without events. */
export const currentValue = (reader: Reader, row: QuestRow, step: CompiledStep): number | undefined => {
  const { definition, lifetime } = step;
  if (definition.kind === "STATE") return 0;
  if (definition.kind !== "EVENT") return row.steps[definition.key]?.value ?? 0;
  if (lifetime) return readMetric(reader, lifetime);
  const count = countOf(reader, row, definition.key);
  if (definition.metric.aggregate === "streak") return (count as StreakCount | undefined)?.[1] ?? 0;
  return aggregateValue(definition.metric.aggregate, count);
};

/** Returns whether a value is that of a step that is done. */
export const isReached = ({ definition, target }: CompiledStep, value: number | undefined): boolean => {
  if (value === undefined) return false;
  const isLow = definition.kind === "EVENT" && definition.metric.aggregate === "min";
  return isLow ? value <= target : value >= target;
};

/** Returns the value of a step as it is shown: 0 where there is none. */
export const shownValue = (reader: Reader, row: QuestRow, step: CompiledStep): number => {
  const progress: StepProgress | undefined = row.steps[step.definition.key];
  if (progress?.doneMs !== undefined || row.state !== "IN_PROGRESS") return progress?.value ?? 0;
  return currentValue(reader, row, step) ?? 0;
};

/** Returns how far a step is, 0 to 100; 100 only when it is done. */
export const stepPercent = (
  step: CompiledStep,
  { value, isDone }: { value: number; isDone: boolean },
): number => {
  if (isDone) return 100;
  const { definition, target } = step;
  const isLow = definition.kind === "EVENT" && definition.metric.aggregate === "min";
  if (definition.kind === "STATE" || isLow || target <= 0) return 0;
  return Math.max(0, Math.min(99, Math.floor((100 * value) / target)));
};

/** Returns how far a quest in progress is: the mean of the required steps that are furthest, at most 99. */
export const questPercent = (reader: Reader, quest: CompiledQuest, row: QuestRow): number => {
  const percents: number[] = [];
  for (const step of quest.steps) {
    const { key, optional } = step.definition;
    if (optional) continue;
    const isDone = row.steps[key]?.doneMs !== undefined;
    percents.push(isDone ? 100 : stepPercent(step, { value: shownValue(reader, row, step), isDone }));
  }
  const { required } = quest;
  if (required < percents.length) percents.sort((a, b) => b - a);
  let sum = 0;
  for (let i = 0; i < required; i++) sum += percents[i]!;
  return Math.min(99, Math.floor(sum / required));
};

/** Returns the steps of a row with their last values, which are all that is kept once it is over. */
const finalSteps = (turn: Turn, quest: CompiledQuest, row: QuestRow): QuestRow["steps"] =>
  Object.fromEntries(
    quest.steps.flatMap((step): [string, StepProgress][] => {
      const { key } = step.definition;
      const value = shownValue(turn, row, step);
      const { pending: _withdrawn, ...known } = row.steps[key] ?? {};
      return row.steps[key] || value !== 0 ? [[key, { ...known, value }]] : [];
    }),
  );

/** Completes a row: its rewards are granted at once, or wait to be claimed. */
export const completeQuest = (turn: Turn, quest: CompiledQuest, row: QuestRow): void => {
  const { at } = turn.event;
  const { claim, claimWindowSeconds, rewards } = quest.definition;
  const isManual = claim === "MANUAL";
  const claimUntilMs = isManual && claimWindowSeconds !== undefined ? at + claimWindowSeconds * 1_000 : null;
  const completed: QuestRow = {
    ...row,
    state: "COMPLETED",
    percent: 100,
    steps: finalSteps(turn, quest, row),
    completedMs: at,
    claimUntilMs,
    completions: row.completions + 1,
    lastCompletedMs: at,
  };
  dropCounts(turn, row);
  storeRow(turn, quest.key, completed);
  emitQuest(turn, "quest.completed", {
    ...subjectOf(turn, quest, row),
    questId: quest.id,
    questVersion: row.version,
    completions: completed.completions,
    durationSeconds: Math.max(0, Math.round((at - row.startedMs) / 1_000)),
    rewards,
    claimRequired: isManual,
    claimUntil: isoOf(claimUntilMs),
    completedAt: isoOf(at),
  });
  if (!isManual) claimQuest(turn, quest, completed);
};

/** Grants the rewards of a completed row. */
export const claimQuest = (turn: Turn, quest: CompiledQuest, row: QuestRow): void => {
  const { rewards } = quest.definition;
  storeRow(turn, quest.key, { ...row, state: "CLAIMED", claimedMs: turn.event.at });
  giveRewards(turn, "QUEST", { key: quest.key, row, what: "complete", bundle: rewards });
  emitQuest(turn, "quest.claimed", { ...subjectOf(turn, quest, row), rewards });
};

type Ending = Extract<QuestRow["state"], "EXPIRED" | "FAILED" | "ABANDONED">;

const endRow = (turn: Turn, quest: CompiledQuest, row: QuestRow, state: Ending): void => {
  const steps = row.state === "IN_PROGRESS" ? finalSteps(turn, quest, row) : row.steps;
  dropCounts(turn, row);
  storeRow(turn, quest.key, { ...row, state, steps });
};

/** Ends a row whose time is over: what was not claimed is lost. */
export const expireQuest = (turn: Turn, quest: CompiledQuest, row: QuestRow): void => {
  endRow(turn, quest, row, "EXPIRED");
  emitQuest(turn, "quest.expired", { ...subjectOf(turn, quest, row), percent: row.percent });
};

export const failQuest = (turn: Turn, quest: CompiledQuest, row: QuestRow, cause: Cause): void => {
  endRow(turn, quest, row, "FAILED");
  emitQuest(turn, "quest.failed", { ...subjectOf(turn, quest, row), cause });
};

/** Ends a row at the player's wish: it may be started again. */
export const abandonQuest = (turn: Turn, quest: CompiledQuest, row: QuestRow): void =>
  endRow(turn, quest, row, "ABANDONED");

/** Puts a row back, as if it had not been started; granted rewards stay, and are not granted again. */
export const resetQuest = (turn: Turn, row: QuestRow, key: string): void => {
  dropCounts(turn, row);
  storeRow(turn, key, { ...row, state: "RESET", percent: 0, steps: {}, expiresMs: null });
};
