import type { PlanTurn } from "../project-plan.ts";
import type { CompiledAdventure } from "./compile.ts";
import { rowOf } from "./context.ts";
import {
  claimTiers,
  expireAdventure,
  joinAdventure,
  joinProblem,
  newRow,
  settleProgress,
} from "./progress.ts";
import { hasJoined } from "./row.ts";
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
  return at >= untilMs ? "it is over" : undefined;
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
