import { asReceived } from "../pauses.ts";
import type { PlanTurn } from "../project-plan.ts";
import type { QuestOrder } from "../turn.ts";
import type { CompiledAdventure } from "./compile.ts";
import { rowOf } from "./context.ts";
import {
  addPoints,
  claimTiers,
  completeAdventure,
  expireAdventure,
  joinAdventure,
  joinProblem,
  newRow,
  settleProgress,
  takesPart,
} from "./progress.ts";
import { whyNotRunning } from "./closed.ts";
import { hasJoined, notJoined } from "./row.ts";
import { storeAdventure } from "./store.ts";

/** Makes the turn's player join. @returns why that is not possible */
export const joinNow = (turn: PlanTurn, adventure: CompiledAdventure): string | undefined => {
  expireAdventure(turn, adventure);
  const problem = joinProblem(turn, adventure);
  if (problem !== undefined) return problem;
  joinAdventure(turn, adventure);
  settleProgress(turn, adventure);
  return undefined;
};

/** Returns why the turn's player cannot get premium; undefined where that is possible, or has happened. */
export const premiumProblem = (turn: PlanTurn, adventure: CompiledAdventure): string | undefined => {
  const { at } = turn.event;
  // After the end it still opens what was reached.
  const untilMs = hasJoined(rowOf(turn, adventure)) ? adventure.claimMs : adventure.endMs;
  return at >= untilMs ? "the adventure is over" : undefined;
};

/**
 * Gives the turn's player premium, which is possible before the start too: who can join, does. Tiers that are
 * reached open, and give their premium rewards where they are not claimed by hand.
 */
export const givePremium = (turn: PlanTurn, adventure: CompiledAdventure): void => {
  expireAdventure(turn, adventure);
  const row = rowOf(turn, adventure) ?? newRow(adventure);
  if (row.premiumMs !== null) return;
  storeAdventure(turn, adventure, { ...row, premiumMs: turn.event.at });
  if (!hasJoined(row)) return void joinNow(turn, adventure);
  if (adventure.definition.claim === "AUTO") claimTiers(turn, adventure);
};

/** Gives premium of an adventure as a reward. @returns why that is not possible */
export const grantPremium = (turn: PlanTurn, key: string): string | undefined => {
  const adventure = turn.project.adventures.byKey.get(key);
  if (!adventure) return "there is no such adventure";
  const problem = premiumProblem(turn, adventure);
  if (problem === undefined) givePremium(turn, adventure);
  return problem;
};

type Change = (turn: PlanTurn, adventure: CompiledAdventure) => string | undefined;

/** Makes the turn's player take part, who joins where that is possible. */
const takePart: Change = (turn, adventure) => {
  if (!hasJoined(rowOf(turn, adventure))) return joinNow(turn, adventure);
  return takesPart(turn, adventure) ? undefined : `the adventure ${whyNotRunning(turn, adventure)}`;
};

const complete: Change = (turn, adventure) => {
  const problem = takePart(turn, adventure);
  if (problem !== undefined) return problem;
  if (rowOf(turn, adventure)!.completedMs !== null) return "it is completed already";
  completeAdventure(turn, adventure);
  return undefined;
};

const advance = (turn: PlanTurn, adventure: CompiledAdventure, points: number): string | undefined => {
  if (points < 0) return "points never fall";
  const problem = takePart(turn, adventure);
  if (problem !== undefined) return problem;
  addPoints(turn, adventure, points);
  settleProgress(turn, adventure);
  return undefined;
};

/** Puts an adventure back, as if it had not been joined; tiers whose rewards were granted stay reached. */
const reset: Change = (turn, adventure) => {
  const row = rowOf(turn, adventure);
  if (!hasJoined(row) || (row.state !== "IN_PROGRESS" && row.state !== "EXPIRED"))
    return "there is nothing to reset";
  const granted = Object.entries(row.tiers).filter(
    ([, { freeMs, premiumMs }]) => freeMs !== undefined || premiumMs !== undefined,
  );
  storeAdventure(turn, adventure, { ...notJoined(row), tiers: Object.fromEntries(granted) });
  return undefined;
};

/**
 * Does what a rule orders, after expiring what is over at the event's time.
 * @returns why that is not possible
 */
export const changeAdventure = (
  turn: PlanTurn,
  { key, operation, amount = 0 }: QuestOrder,
): string | undefined => {
  const published = turn.project.adventures.byKey.get(key);
  if (!published) return "there is no such adventure";
  const adventure = asReceived(published, turn);
  if (adventure.phase === "PAUSED") return "it is PAUSED";
  expireAdventure(turn, adventure);
  switch (operation) {
    case "START":
      return joinNow(turn, adventure);
    case "ADVANCE":
      return advance(turn, adventure, amount);
    case "COMPLETE":
      return complete(turn, adventure);
    case "RESET":
      return reset(turn, adventure);
    case "FAIL":
      return "adventures do not fail";
  }
};
