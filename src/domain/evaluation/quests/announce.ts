import { publish } from "../emit.ts";
import type { QuestState } from "../player-state.ts";
import type { PlanTurn } from "../project-plan.ts";
import type { CompiledQuest } from "./compile.ts";
import type { QuestRow } from "./row.ts";
import { outlineRow, showRow } from "./show.ts";

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

/** What of a step players see besides its percent: attempts, and what waits for a review. */
const triedIn = ({ steps }: QuestRow): string =>
  JSON.stringify(
    Object.entries(steps).flatMap(([key, { attempts, failedMs, pending, value }]) =>
      attempts === undefined && pending === undefined ? [] : [[key, attempts, failedMs, pending, value]],
    ),
  );

const progressOf = (before: QuestRow, now: QuestRow): Change | undefined => {
  if (doneIn(now).length > doneIn(before).length) return "STEP_COMPLETED";
  const isSame =
    before.percent === now.percent && before.version === now.version && triedIn(before) === triedIn(now);
  return isSame ? undefined : "PROGRESS";
};

/** Returns the greatest of the changes of a row; undefined when players see none. */
const changeOf = (before: QuestRow | undefined, now: QuestRow): Change | undefined => {
  if (now.state !== "IN_PROGRESS") return before?.state === now.state ? undefined : ENDINGS[now.state];
  return before?.state === "IN_PROGRESS" ? progressOf(before, now) : "STARTED";
};

/** Returns what `quest.progress` says besides the quest; undefined where the percent has not changed. */
const progressIn = (before: QuestRow | undefined, now: QuestRow) => {
  if (before?.state !== "IN_PROGRESS" || now.state !== "IN_PROGRESS") return undefined;
  if (before.percent === now.percent) return undefined;
  const doneBefore = new Set(doneIn(before));
  const justCompleted = doneIn(now).filter((key) => !doneBefore.has(key));
  return { previousPercent: before.percent, justCompleted };
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
  const { id: playerId, externalUserId } = turn.player;
  const progress = progressIn(before, now);
  publish(turn, "quest.updated", {
    playerId,
    externalUserId,
    quest: before ? outlineRow(turn, quest, now) : showRow(turn, quest, now),
    change,
    ...(progress && { progress }),
  });
};

/**
 * Publishes what a pass has changed in the player's quests: for each one line of the player's stream.
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
