import { adjustCurrency } from "../../evaluation/currencies/adjust.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";
import { stateOfPlayer } from "../../progression/players/show.ts";
import type { Player } from "../../players/player.ts";
import { changePlayer } from "../../progression/change.ts";
import { loadStates } from "../../progression/load-states.ts";
import { streaks as streaksPart } from "../../progression/parts/streaks.ts";
import { lockPlan } from "../../progression/locked-plan.ts";
import { projectPlans, readPlan } from "../../progression/plan.ts";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import type { CompiledDefinitions } from "../../evaluation/compiled-definitions.ts";
import type { Turn } from "../../evaluation/turn.ts";
import type { Work } from "../../kernel/work.ts";
import { grantFreezes, settledAt, zoneOf } from "../../evaluation/streaks/advance.ts";
import { announce, storeStreak } from "../../evaluation/streaks/announce.ts";
import type { CompiledStreak } from "../../evaluation/streaks/compile.ts";
import { missedPeriods, repair, repairable, reset } from "../../evaluation/streaks/repair.ts";
import { type PlayerStreak, showStreak } from "./show.ts";
import { NO_STEPS, type LostRun, type Settled, type Streak } from "../../evaluation/streaks/state.ts";

type StreakHolder = { player: PlayerState; project: CompiledDefinitions };

/** Reads a player's streaks without changing them. */
export const readStreaks = async (work: Work, player: Player): Promise<StreakHolder> => {
  const project = await readPlan(work, player.projectId, projectPlans);
  const state = stateOfPlayer(player);
  await loadStates(work, [state], [project], [streaksPart]);
  return { player: state, project };
};

/** Returns one streak as of now. */
export const showNow = (whose: StreakHolder, streak: CompiledStreak, nowMs: number): PlayerStreak => {
  const { state } = settledAt(streak, whose, nowMs);
  return showStreak(streak, state, { nowMs, zone: zoneOf(streak, whose).zone });
};

/** Lists all streaks of the player's project as of now, by key, including those that have not begun. */
export const listStreaks = async (work: Work, player: Player): Promise<PlayerStreak[]> => {
  const whose = await readStreaks(work, player);
  return shownStreaks(whose, work.now.getTime());
};

/** Returns the streaks of a player whose streaks are loaded, as `listStreaks` does. */
export const shownStreaks = (whose: StreakHolder, nowMs: number): PlayerStreak[] =>
  [...whose.project.streaks.values()].map((streak) => showNow(whose, streak, nowMs));

/** @throws DomainError NOT_FOUND */
export const streakOf = ({ streaks }: Pick<CompiledDefinitions, "streaks">, key: string): CompiledStreak => {
  const streak = streaks.get(key);
  if (!streak) throw notFound("streak");
  return streak;
};

type Ref = { projectId: string; id: string };

/** Changes one streak of a player after settling it, and returns its new state. */
const changeStreak = async (
  work: Work,
  player: Ref,
  streakKey: string,
  change: (turn: Turn, streak: CompiledStreak, settled: Streak) => Settled,
): Promise<PlayerStreak> => {
  // Locked, so that the limits of milestones that may be reached are locked too.
  const { milestones } = streakOf(await lockPlan(work, player.projectId), streakKey).definition;
  const gives = milestones.map(({ rewards }) => rewards);
  const applied = (turn: PlanTurn) => {
    const streak = streakOf(turn.project, streakKey);
    const settled = settledAt(streak, turn, turn.nowMs);
    const { state, steps } = change(turn, streak, settled.state);
    storeStreak(turn, streak, state);
    announce(turn, streak, [...settled.steps, ...steps]);
    return () => showNow(turn, streak, turn.nowMs);
  };
  return (await changePlayer(work, player, applied, { gives })).value;
};

/**
 * Grants freezes to a player, up to the streak's maximum.
 * @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE for a streak without freezes, PLAYER_INACTIVE
 */
export const giveFreezes = async (
  work: Work,
  player: Ref,
  { streakKey, amount }: { streakKey: string; amount: number },
): Promise<PlayerStreak> => {
  const { value } = await changePlayer(work, player, (turn) => {
    const streak = streakOf(turn.project, streakKey);
    if (!streak.definition.freeze?.enabled) throw conflict("INVALID_STATE", "the streak has no freezes");
    checkActive(turn.player);
    grantFreezes(turn, streakKey, amount);
    return () => showNow(turn, streak, turn.nowMs);
  });
  return value;
};

const checkActive = ({ status }: PlayerState): void => {
  if (status !== "ACTIVE") throw conflict("PLAYER_INACTIVE", `the player is ${status}`);
};

/**
 * Restores a player's lost run within the streak's repair period. `pay`: charges a freeze for each missed
 * period if freezes are not applied automatically and the player has enough, otherwise the streak's price;
 * without it the repair is free.
 * @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE when there is nothing to repair or no price,
 * INSUFFICIENT_FUNDS, PLAYER_INACTIVE
 */
export const repairStreak = (
  work: Work,
  ref: Ref,
  { streakKey, pay, cause }: { streakKey: string; pay: boolean; cause: Cause },
): Promise<PlayerStreak> =>
  changeStreak(work, ref, streakKey, (turn, streak, settled) => {
    checkActive(turn.player);
    const lost = repairable(streak, settled, turn.nowMs);
    if (!lost) throw conflict("INVALID_STATE", "the streak has no lost run that can still be repaired");
    const paid = pay ? payFor(turn, streak, { settled, lost, cause }) : settled;
    return repair(streak, paid, { lost, atMs: turn.nowMs, by: pay ? "PURCHASE" : "ADMIN" });
  });

const payFor = (
  turn: Turn,
  streak: CompiledStreak,
  { settled, lost, cause }: { settled: Streak; lost: LostRun; cause: Cause },
): Streak => {
  const { key, freeze, repairCost } = streak.definition;
  const missed = missedPeriods(streak, settled, { lost, atMs: turn.nowMs }).length;
  if (freeze?.enabled && !freeze.autoUse && missed > 0 && settled.freezes >= missed)
    return { ...settled, freezes: settled.freezes - missed };
  if (!repairCost) throw conflict("INVALID_STATE", "the streak has no price for a repair");
  const { currencyKey, amount } = repairCost;
  const change = {
    currencyKey,
    amount: -amount,
    cause,
    key: `api:${newId()}`,
    reason: `streak:${key}:repair`,
  };
  const { problem } = adjustCurrency(turn, change);
  if (problem !== undefined) throw conflict(problem, `the repair costs ${amount} ${currencyKey}`);
  return settled;
};

/**
 * Ends a player's run, which cannot be repaired then; longest and freezes stay.
 * @throws DomainError NOT_FOUND
 */
export const resetStreak = (work: Work, ref: Ref, streakKey: string): Promise<PlayerStreak> =>
  changeStreak(work, ref, streakKey, (turn, streak, settled) =>
    settled.doc.run || settled.doc.lost || settled.doc.progress
      ? reset(streak, settled, turn.nowMs)
      : { state: settled, steps: NO_STEPS },
  );
