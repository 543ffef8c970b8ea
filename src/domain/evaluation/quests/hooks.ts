import type { PlanTurn } from "../project-plan.ts";
import type { QuestStanding } from "../turn.ts";
import { deadlineOf, doneBy } from "./context.ts";
import type { PlayerQuestState, QuestRow } from "./row.ts";
import { isAvailable } from "./places.ts";
import { currentOf } from "./show.ts";
import { questPercent } from "./values.ts";
import type { CompiledQuest } from "./compile.ts";

const stateOf = (quest: CompiledQuest, row: QuestRow, atMs: number): PlayerQuestState => {
  const untilMs = row.state === "IN_PROGRESS" ? deadlineOf(quest, row) : (row.claimUntilMs ?? Infinity);
  const isOpen = row.state === "IN_PROGRESS" || row.state === "COMPLETED";
  if (isOpen && atMs >= untilMs) return "EXPIRED";
  return row.state === "RESET" ? "AVAILABLE" : row.state;
};

const NOT_OFFERED: QuestStanding = { state: "LOCKED", percent: 0, doneSteps: [] };

/**
 * Returns where the turn's player stands in a quest, in the cycle of the event's time; undefined for an
 * unknown quest. What is over by then is EXPIRED, although it may not have been settled yet.
 */
export const questStanding = (turn: PlanTurn, key: string): QuestStanding | undefined => {
  const quest = turn.project.quests.byKey.get(key);
  if (!quest) return undefined;
  const current = currentOf(turn, quest);
  if (!current) return NOT_OFFERED;
  if (!("row" in current))
    return {
      state: isAvailable(turn, quest) ? "AVAILABLE" : "LOCKED",
      percent: 0,
      doneSteps: [],
    };
  const { row } = current;
  const version = doneBy(quest, row);
  return {
    state: stateOf(quest, row, turn.event.at),
    percent: row.state === "IN_PROGRESS" ? questPercent(turn, version, row) : row.percent,
    doneSteps: Object.entries(row.steps).flatMap(([step, { doneMs }]) =>
      doneMs === undefined ? [] : [step],
    ),
  };
};
