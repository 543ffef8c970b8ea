import type { Cause } from "../../kernel/events/events.ts";
import { asReceived } from "../pauses.ts";
import type { PlanTurn } from "../project-plan.ts";
import type { QuestOrder } from "../turn.ts";
import type { CompiledQuest } from "./compile.ts";
import type { NextCycle } from "./context.ts";
import { failQuest, resetQuest } from "./finish.ts";
import { addToStep, forceSteps, settleSteps } from "./progress.ts";
import type { StartedBy, StoredState } from "./row.ts";
import { inProgress, settleQuest } from "./settle.ts";
import { hasPlace } from "./places.ts";
import { whyLocked } from "./locked.ts";
import { freeCycle, startPaid, startQuest, type StartProblem } from "./start.ts";
import { whyNotFree } from "./why-not.ts";

/** States from which a quest can be put back. */
export const RESETTABLE: ReadonlySet<StoredState> = new Set(["IN_PROGRESS", "FAILED", "EXPIRED"]);

/** Returns why a quest in a state cannot be put back. */
export const whyNotReset = (state: StoredState | undefined): string =>
  `there is nothing to reset: the quest ${state === undefined ? "has not been started" : `is ${state}`}`;

const NOT_IN_PROGRESS = "the quest is not in progress";

type Change = (turn: PlanTurn, quest: CompiledQuest, startedBy: StartedBy) => StartProblem | undefined;

const unavailable = (message: string): StartProblem => ({ reason: "QUEST_NOT_AVAILABLE", message });

const FULL: StartProblem = { reason: "LIMIT_REACHED", message: "all places of the quest are taken" };

const nextOf = (turn: PlanTurn, quest: CompiledQuest): NextCycle | undefined =>
  freeCycle(quest, turn, turn.player.quests.get(quest.key), turn.event.at);

/** Starts a quest where the player may start it and can pay, and finishes the steps that are done already. */
export const startNow: Change = (turn, quest, startedBy) => {
  const next = nextOf(turn, quest);
  if (!next) return unavailable(whyNotFree(turn, quest));
  if (!quest.mayStart(turn)) return unavailable(whyLocked(turn, quest));
  if (!hasPlace(turn, quest)) return FULL;
  const started = startPaid(turn, quest, next, startedBy);
  if ("reason" in started) return started;
  settleSteps(turn, quest, started);
  return undefined;
};

/** Completes a quest whatever its steps have counted; it is started where it is offered, at no cost. */
export const completeNow: Change = (turn, quest, startedBy) => {
  if (!inProgress(turn, quest)) {
    const next = nextOf(turn, quest);
    if (!next) return unavailable(whyNotFree(turn, quest));
    if (!hasPlace(turn, quest)) return FULL;
    startQuest(turn, quest, next, startedBy);
  }
  const { version, row } = inProgress(turn, quest)!;
  forceSteps(turn, version, row);
  return undefined;
};

/** Adds to what a step of a quest in progress has counted, or sets it. */
export const advanceNow = (
  turn: PlanTurn,
  quest: CompiledQuest,
  { stepKey, ...by }: { stepKey: string } & ({ amount: number } | { set: number }),
): string | undefined => {
  const running = inProgress(turn, quest);
  if (!running) return NOT_IN_PROGRESS;
  const { version, row } = running;
  const problem = addToStep(turn, version, { row, stepKey, by });
  if (problem === undefined) settleSteps(turn, version, row);
  return problem;
};

const failNow = (turn: PlanTurn, quest: CompiledQuest, cause: Cause): string | undefined => {
  const running = inProgress(turn, quest);
  if (!running) return NOT_IN_PROGRESS;
  failQuest(turn, { quest: running.version, row: running.row, cause });
  return undefined;
};

const resetNow = (turn: PlanTurn, { key }: CompiledQuest): string | undefined => {
  const latest = turn.player.quests.get(key)?.latest;
  if (!latest || !RESETTABLE.has(latest.state)) return whyNotReset(latest?.state);
  resetQuest(turn, latest, key);
  return undefined;
};

/**
 * Does what a rule orders, after settling the quest at the event's time.
 * @returns why that is not possible
 */
export const changeQuest = (turn: PlanTurn, order: QuestOrder, cause: Cause): string | undefined => {
  const published = turn.project.quests.byKey.get(order.key);
  if (!published) return "there is no such quest";
  const quest = asReceived(published, turn);
  settleQuest(turn, quest);
  if (quest.phase === "PAUSED") return "it is PAUSED";
  switch (order.operation) {
    case "START":
      return startNow(turn, quest, "RULE")?.message;
    case "COMPLETE":
      return completeNow(turn, quest, "RULE")?.message;
    case "FAIL":
      return failNow(turn, quest, cause);
    case "RESET":
      return resetNow(turn, quest);
    case "ADVANCE":
      return advanceNow(turn, quest, { stepKey: order.stepKey!, amount: order.amount! });
  }
};
