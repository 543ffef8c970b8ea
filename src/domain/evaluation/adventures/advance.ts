import type { CompiledAdventure } from "./compile.ts";
import {
  addPoints,
  claimTiers,
  completeAdventure,
  countItem,
  expireAdventure,
  joinAdventure,
  joinProblem,
  newRow,
  pointsOfEvent,
  rowOf,
  settleProgress,
  storeAdventure,
  takesPart,
  unlockItems,
  updateAdventure,
  whyNotRunning,
} from "./progress.ts";
import { hasJoined, notJoined } from "./row.ts";
import { asReceived } from "../live.ts";
import type { PlanTurn } from "../project-plan.ts";
import { refreshQuests } from "../quests/advance.ts";
import type { QuestNews, QuestOrder } from "../turn.ts";

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

/** Returns whether the player takes part; who can, joins by progress where `join` is AUTO. */
const joinsIn = (turn: PlanTurn, adventure: CompiledAdventure): boolean => {
  if (hasJoined(rowOf(turn, adventure))) return takesPart(turn, adventure);
  const isAuto = adventure.definition.join === "AUTO" && turn.player.status === "ACTIVE";
  if (!isAuto || joinProblem(turn, adventure) !== undefined) return false;
  joinAdventure(turn, adventure, { isAuto: true });
  return true;
};

const countEvent = (turn: PlanTurn, adventure: CompiledAdventure): void => {
  expireAdventure(turn, adventure);
  const points = pointsOfEvent(adventure, turn);
  if (points <= 0 || !joinsIn(turn, adventure)) return;
  addPoints(turn, adventure, points);
  settleProgress(turn, adventure);
};

const countNews = (turn: PlanTurn, adventure: CompiledAdventure, news: QuestNews): void => {
  expireAdventure(turn, adventure);
  if (!joinsIn(turn, adventure)) return;
  if (news.isCompleted) countItem(turn, adventure, news);
  settleProgress(turn, adventure);
};

/** Counts what quests have done since the last time. @returns whether there was anything */
const followQuests = (turn: PlanTurn): boolean => {
  const news = turn.root.questNews;
  if (!news || news.length === 0) return false;
  turn.root.questNews = [];
  let isFollowed = false;
  for (const one of news) {
    for (const adventure of turn.project.adventures.ofQuest(one.questKey)) {
      countNews(turn, asReceived(adventure, turn), one);
      isFollowed = true;
    }
  }
  return isFollowed;
};

/** Maximum rounds in which quests and adventures follow one another; later turns continue a longer chain. */
const ROUNDS_MAX = 10;

const followInRounds = (turn: PlanTurn): void => {
  for (let round = 0; round < ROUNDS_MAX && followQuests(turn); round++) refreshQuests(turn);
};

/** Evaluates quests whose inputs have changed, adventures that they belong to, and what these unlock. */
export const refreshGoals = (turn: PlanTurn): void => {
  refreshQuests(turn);
  followInRounds(turn);
};

/**
 * Settles the player's adventures of which something is due at the turn's time. One that is not due, because
 * its times have changed, gets its new due time.
 */
export const settleDue = (turn: PlanTurn): void => {
  const { player, project, event } = turn;
  for (const [key, row] of player.adventures) {
    if (row.dueMs === null || row.dueMs > event.at) continue;
    const adventure = project.adventures.byKey.get(key);
    if (!adventure) continue;
    const then = asReceived(adventure, turn);
    expireAdventure(turn, then);
    unlockItems(turn, then);
    // A new version may need less than the player has.
    if (row.version !== adventure.version && player.status === "ACTIVE") settleProgress(turn, then);
    if (player.adventures.get(key) === row) updateAdventure(turn, adventure, {});
  }
};

/** Step 4 of evaluation, after the quests: events that give points, and what quests have started or done. */
export const advanceAdventures = (turn: PlanTurn): void => {
  const { adventures } = turn.project;
  if (adventures.byKey.size === 0) return;
  settleDue(turn);
  for (const adventure of adventures.forEvent(turn.event.type)) countEvent(turn, asReceived(adventure, turn));
  followInRounds(turn);
};
