import { notFound } from "../errors.ts";
import { newId } from "../ids.ts";
import type { Work } from "../work.ts";
import { changeEvent, noEffects, openTurn, settleTurn } from "./evaluate.ts";
import { loadStates, lockPlayer } from "./load.ts";
import { createPlanCache, loadPlans } from "./plan.ts";
import { saveBatch } from "./save.ts";
import { lockSharedCounters } from "./shared-counters.ts";
import { sharedKeysOf } from "./shared-needs.ts";
import type { PlayerState, Turn } from "./turn.ts";

/**
 * Plans are as good for a change as for an event: each is valid for one config version, whoever compiled it.
 */
const plans = createPlanCache();

export type Changed<T> = { value: T; player: PlayerState };

/**
 * Changes one player outside event processing (a grant, a score, a profile edit by REST): a batch of one, on
 * the same path as events, so ledger, stream, boards, outbox and the rules that hear of it follow the same
 * rules.
 * @throws DomainError NOT_FOUND when the project has no such player; whatever `change` throws undoes
 * everything
 */
export const changePlayer = async <T>(
  work: Work,
  projectId: string,
  playerId: string,
  change: (turn: Turn) => T,
): Promise<Changed<T>> => {
  const plan = (await loadPlans(work, [projectId], plans)).get(projectId);
  const player = await lockPlayer(work, projectId, playerId);
  if (!plan || !player) throw notFound("player");
  await loadStates(work, [player], [plan]);
  const effects = noEffects();
  const nowMs = work.now.getTime();
  const event = changeEvent(newId(), nowMs);
  const shared = await lockSharedCounters(work, sharedKeysOf(plan, [event]));
  const turn = openTurn({ plan, player, event, nowMs, effects, shared });
  const xpBefore = player.xp;
  const value = change(turn);
  settleTurn(turn, xpBefore);
  await saveBatch(work, { players: [player], effects, shared, verdicts: [], done: [] });
  return { value, player };
};
