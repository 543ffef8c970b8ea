import type { Cause } from "../../kernel/events/events.ts";
import type { Turn } from "../turn.ts";
import type { CompiledQuest } from "./compile.ts";
import { giveRewards } from "./rewards.ts";
import type { QuestRow, StepProgress } from "./row.ts";
import { dropCounts, emitQuest, storeRow, subjectOf } from "./store.ts";
import { shownValue } from "./values.ts";

const isoOf = (ms: number): string => new Date(ms).toISOString();

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
    claimUntil: claimUntilMs === null ? null : isoOf(claimUntilMs),
    completedAt: isoOf(at),
  });
  if (!isManual) claimQuest(turn, quest, completed);
};

/** Grants the rewards of a completed row. */
export const claimQuest = (turn: Turn, quest: CompiledQuest, row: QuestRow): void => {
  const { rewards } = quest.definition;
  storeRow(turn, quest.key, { ...row, state: "CLAIMED", claimedMs: turn.event.at });
  giveRewards(turn, quest, { bundle: rewards, row, what: "complete" });
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

export const failQuest = (
  turn: Turn,
  { quest, row, cause }: { quest: CompiledQuest; row: QuestRow; cause: Cause },
): void => {
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
