import { notFound } from "../errors.ts";
import { newId } from "../ids.ts";
import type { Work } from "../work.ts";
import { scoreXp } from "../leaderboards/scoring.ts";
import { changeEvent, noEffects, openTurn } from "./evaluate.ts";
import { loadStates, lockPlayer } from "./load.ts";
import { batchOutboxParts, saveBatch } from "./save.ts";
import { createPlanCache, loadPlans } from "./setup.ts";
import type { PlayerState, Turn } from "./turn.ts";

/**
 * Plans are as good for a change as for an event: each is valid for one config version, whoever compiled it.
 */
const plans = createPlanCache();

export type Changed<T> = { value: T; player: PlayerState };

/**
 * Changes one player outside event processing (a grant, a score, a profile edit by REST): a batch of one, on
 * the same path as events, so ledger, stream, boards and outbox follow the same rules.
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
  await loadStates(
    work,
    [player],
    plan.boards.map((board) => board.periodId),
  );
  const effects = noEffects();
  const nowMs = work.now.getTime();
  const turn = openTurn({ plan, player, event: changeEvent(newId(), nowMs), nowMs, effects });
  const xpBefore = player.xp;
  const value = change(turn);
  if (player.xp !== xpBefore) scoreXp(turn, plan.boardIndex);
  const batch = { players: [player], effects, verdicts: [], done: [] };
  await saveBatch(work, batch);
  work.ring(batchOutboxParts(batch));
  return { value, player };
};
