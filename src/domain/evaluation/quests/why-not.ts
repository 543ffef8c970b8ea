import type { PlanTurn } from "../project-plan.ts";
import type { CompiledQuest } from "./compile.ts";
import { isOver, zoneFor } from "./context.ts";
import { cycleAt, hasPeriods } from "./cycles.ts";
import type { QuestRow } from "./row.ts";

const isoOf = (ms: number): string => new Date(ms).toISOString();

/** Why the player's latest cycle keeps the next one from being started, after it has been settled. */
const whyTaken = (turn: PlanTurn, { definition: { repeat } }: CompiledQuest, latest: QuestRow): string => {
  const { at } = turn.event;
  const { state, cycleKey, completions, lastCompletedMs } = latest;
  if (state === "IN_PROGRESS") return "it is in progress already";
  const { maxCompletions = Infinity, cooldownSeconds = 0 } = repeat;
  if (completions >= maxCompletions)
    return `the player has completed it ${completions} times, and it can be done ${maxCompletions} times`;
  const restedMs = (lastCompletedMs ?? -Infinity) + cooldownSeconds * 1_000;
  if (at < restedMs) return `it can be started again at ${isoOf(restedMs)}, after its cooldown`;
  if (!hasPeriods(repeat)) return `it is ${state}, and can be done once`;
  const { endMs } = cycleAt(repeat, zoneFor(repeat.timezone, turn), at);
  const next = Number.isFinite(endMs) ? `; the next one begins at ${isoOf(endMs)}` : "";
  return `its cycle ${cycleKey} is ${state}${next}`;
};

/** Returns in words why a player has no cycle to start, where `freeCycle` finds none. */
export const whyNotFree = (turn: PlanTurn, quest: CompiledQuest): string => {
  const { at } = turn.event;
  if (quest.phase === "PAUSED") return "the quest is PAUSED";
  if (isOver(quest, at)) return "the quest is over";
  if (at < quest.fromMs) return `the quest begins at ${isoOf(quest.fromMs)}`;
  const latest = turn.player.quests.get(quest.key)?.latest;
  return latest ? whyTaken(turn, quest, latest) : "the quest is not offered now";
};
