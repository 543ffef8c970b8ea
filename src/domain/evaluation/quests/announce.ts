import { publish } from "../emit.ts";
import type { QuestState } from "../player-state.ts";
import type { PlanTurn } from "../project-plan.ts";
import type { CompiledQuest } from "./compile.ts";
import { doneBy } from "./context.ts";
import type { QuestRow } from "./row.ts";
import { showRow } from "./show.ts";
import { subjectOf } from "./store.ts";
import { shownValue } from "./values.ts";

type Change =
  | "STARTED"
  | "PROGRESS"
  | "STEP_COMPLETED"
  | "COMPLETED"
  | "CLAIMED"
  | "EXPIRED"
  | "FAILED"
  | "RESET";

const doneIn = ({ steps }: QuestRow): string[] =>
  Object.entries(steps).flatMap(([key, { doneMs }]) => (doneMs === undefined ? [] : [key]));

const ENDINGS: Partial<Record<QuestRow["state"], Change>> = {
  COMPLETED: "COMPLETED",
  CLAIMED: "CLAIMED",
  EXPIRED: "EXPIRED",
  FAILED: "FAILED",
  ABANDONED: "RESET",
  RESET: "RESET",
};

const progressOf = (before: QuestRow, now: QuestRow): Change | undefined => {
  if (doneIn(now).length > doneIn(before).length) return "STEP_COMPLETED";
  return before.percent === now.percent && before.version === now.version ? undefined : "PROGRESS";
};

/** Returns the greatest of the changes of a row; undefined when players see none. */
const changeOf = (before: QuestRow | undefined, now: QuestRow): Change | undefined => {
  if (now.state !== "IN_PROGRESS") return before?.state === now.state ? undefined : ENDINGS[now.state];
  return before?.state === "IN_PROGRESS" ? progressOf(before, now) : "STARTED";
};

const publishProgress = (turn: PlanTurn, quest: CompiledQuest, before: QuestRow, now: QuestRow): void => {
  const doneBefore = new Set(doneIn(before));
  const version = doneBy(quest, now);
  const steps = version.steps.map((step) => {
    const { key: stepKey } = step.definition;
    const done = now.steps[stepKey]?.doneMs !== undefined;
    const value = shownValue(turn, now, step);
    return { stepKey, value, target: step.target, done, justCompleted: done && !doneBefore.has(stepKey) };
  });
  const { percent } = now;
  const data = { ...subjectOf(turn, quest, now), percent, previousPercent: before.percent, steps };
  publish(turn, "quest.progress", data, { isSilent: true });
};

const rowsOf = (state: QuestState | undefined): readonly QuestRow[] =>
  state ? [state.latest, ...state.older] : [];

const announceRow = (
  turn: PlanTurn,
  quest: CompiledQuest,
  { before, now }: { before: QuestRow | undefined; now: QuestRow },
): void => {
  const change = changeOf(before, now);
  if (change === undefined) return;
  const isOn = before?.state === "IN_PROGRESS" && now.state === "IN_PROGRESS";
  if (isOn && before.percent !== now.percent) publishProgress(turn, quest, before, now);
  const { id: playerId, externalUserId } = turn.player;
  publish(turn, "quest.updated", { playerId, externalUserId, quest: showRow(turn, quest, now), change });
};

/**
 * Publishes what a pass has changed in the player's quests: for each, `quest.progress` once and one line of
 * the player's stream.
 */
export const announceQuests = (turn: PlanTurn): void => {
  const { root, player, project } = turn;
  if (!root.quests) return;
  for (const [key, state] of root.quests) {
    const quest = project.quests.byKey.get(key);
    const rows = rowsOf(player.quests.get(key));
    const before = new Map(rowsOf(state).map((row) => [row.id, row]));
    if (quest) for (const now of rows) announceRow(turn, quest, { before: before.get(now.id), now });
  }
  delete root.quests;
};
