import type { PlanTurn } from "../project-plan.ts";
import type { CompiledAdventure, CompiledItem } from "./compile.ts";
import { isRunning, isUnlocked, rowOf, runsFor, unlocksMs } from "./context.ts";
import { hasJoined, wholePoints } from "./row.ts";

/** An adventure that keeps a quest closed, why, and the quests that must be done first. */
export type ClosedBy = { adventureKey: string; reason: string; questKeys: readonly string[] };

/** Returns in words why an adventure does not run for the turn's player. */
export const whyNotRunning = (turn: PlanTurn, adventure: CompiledAdventure): string => {
  const { phase, fromMs } = adventure;
  if (phase === "PAUSED") return "is paused";
  if (turn.event.at < fromMs) return `begins at ${new Date(fromMs).toISOString()}`;
  return isRunning(adventure, turn.event.at) ? "is not offered to the player" : "is over";
};

type Waiting = { reason: string; questKeys: readonly string[] };

/** Says what an item waits for that is not unlocked. */
const waitsFor = (turn: PlanTurn, adventure: CompiledAdventure, item: CompiledItem): Waiting => {
  const row = rowOf(turn, adventure);
  const { unlock } = item.definition;
  if (!hasJoined(row) && adventure.definition.join === "MANUAL")
    return { reason: "has not been joined", questKeys: [] };
  if (unlock.mode === "POINTS") {
    const has = row ? wholePoints(row) : 0;
    const reason = `unlocks it with ${unlock.points} points, and the player has ${has}`;
    return { reason, questKeys: [] };
  }
  if (unlock.mode === "AT_DATE" || unlock.mode === "DAY_OFFSET") {
    const ms = unlocksMs(turn, adventure, { row, item });
    const when = Number.isFinite(ms)
      ? `at ${new Date(ms).toISOString()}`
      : `${unlock.mode === "DAY_OFFSET" ? unlock.days : 0} days after the player has joined`;
    return { reason: `unlocks it ${when}`, questKeys: [] };
  }
  const questKeys = item.after.filter((key) => row?.items[key] === undefined);
  return { reason: `unlocks it after ${questKeys.join(", ")}`, questKeys };
};

/** Returns the adventures that keep a quest closed for the turn's player; empty where `isQuestOpen`. */
export const closedBy = (turn: PlanTurn, questKey: string): ClosedBy[] => {
  const adventures = turn.project.adventures.ofQuest(questKey);
  const running = adventures.filter((adventure) => runsFor(turn, adventure));
  if (running.length === 0)
    return adventures.map((adventure) => {
      const { key } = adventure;
      return { adventureKey: key, reason: whyNotRunning(turn, adventure), questKeys: [] };
    });
  return running.flatMap((adventure) => {
    const item = adventure.items.get(questKey)!;
    if (isUnlocked(turn, adventure, item)) return [];
    return [{ adventureKey: adventure.key, ...waitsFor(turn, adventure, item) }];
  });
};
