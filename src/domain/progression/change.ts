import { notFound } from "../kernel/errors.ts";
import { newId } from "../kernel/ids.ts";
import { PacedBudget, paced } from "../kernel/pace.ts";
import type { RewardBundle } from "../evaluation/rewards/bundle.ts";
import { limitedKeysOf } from "../evaluation/rewards/shared-keys.ts";
import type { Work } from "../kernel/work.ts";
import { changeEvent, noEffects, openTurn, settleTurn } from "../evaluation/evaluate.ts";
import { ChangeBudget } from "../evaluation/event-accounts.ts";
import { lockPlayersById } from "./load.ts";
import { loadStates } from "./load-states.ts";
import { PLAYER_PARTS } from "./parts/parts.ts";
import { createPlanCache, loadPlans } from "./plan.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import { saveBatch } from "./save.ts";
import { lockSharedCounters } from "./lock-shared-counters.ts";
import { sharedKeysOf } from "../evaluation/shared-needs.ts";
import type { Turn } from "../evaluation/turn.ts";

/** Plans for changes: cached by config version, like those for events. */
export const changePlans = createPlanCache();

export type Changed<T> = { value: T; player: PlayerState };

/**
 * Changes one player outside event processing (a grant, a score, a profile edit by REST), as a batch of one
 * on the same path as events, so that ledger, stream, boards, outbox and triggered rules behave the same.
 * @throws DomainError NOT_FOUND when the project has no such player; whatever `change` throws rolls
 * everything back
 */
export const changePlayer = async <T>(
  work: Work,
  projectId: string,
  playerId: string,
  change: (turn: Turn) => T,
): Promise<Changed<T>> => {
  const [changed] = await changePlayers(work, projectId, { playerIds: [playerId] }, change);
  if (!changed) throw notFound("player");
  return changed;
};

/** `gives`: bundles that the change may give besides XP, so that the counters they share are locked. */
export type ChangeInput = { playerIds: readonly string[]; gives?: readonly RewardBundle[] };

/**
 * As `changePlayer`, for many players in one batch. Unknown ids are ignored; ids of merged players stand for
 * the player that they were merged into, which is changed once.
 */
export const changePlayers = async <T>(
  work: Work,
  projectId: string,
  { playerIds, gives = [] }: ChangeInput,
  change: (turn: Turn) => T,
): Promise<Changed<T>[]> => {
  const plan = (await loadPlans(work, [projectId], changePlans)).get(projectId);
  const players = [...new Set((await lockPlayersById(work, projectId, playerIds)).values())];
  if (!plan || players.length === 0) return [];
  // Includes the state of archived definitions: a hold can still be settled after its currency is archived.
  await loadStates(work, players, [plan], [...PLAYER_PARTS]);
  const nowMs = work.now.getTime();
  const event = changeEvent(newId(), nowMs);
  const limited = limitedKeysOf(plan, gives);
  const keys = await paced(sharedKeysOf(plan, [event]), new PacedBudget(Infinity));
  const shared = await lockSharedCounters(work, [...keys, ...limited]);
  const effects = noEffects();
  const changed: Changed<T>[] = [];
  const budget = new ChangeBudget();
  for (const player of players) {
    const own = changeEvent(newId(), nowMs);
    const accounts = budget.open();
    const turn = openTurn({ plan, player, event: own, nowMs, effects, shared, accounts });
    const xpBefore = player.xp;
    const value = change(turn);
    settleTurn(turn, xpBefore);
    changed.push({ value, player });
    await budget.close(accounts);
  }
  await saveBatch(work, { players, effects, shared, verdicts: [], done: [] });
  return changed;
};
