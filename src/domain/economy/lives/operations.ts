import { checkActive } from "../../evaluation/player-state.ts";
import { conflict } from "../../kernel/errors.ts";
import type { LivesView } from "../../kernel/events/shapes.ts";
import { newId } from "../../kernel/ids.ts";
import { changePlayer, type PlayerKey } from "../../progression/change.ts";
import type { Player } from "../../players/player.ts";
import { stateOfPlayer } from "../../progression/load.ts";
import { projectPlans, readPlan } from "../../progression/plan.ts";
import type { Work } from "../../kernel/work.ts";
import { adjustLives, type LivesChange, showLives } from "../../evaluation/lives/lives.ts";

/** Returns a player's current lives; null where the project has none. */
export const readLives = async (work: Work, player: Player): Promise<LivesView | null> => {
  const { settings } = await readPlan(work, player.projectId, projectPlans);
  return showLives(settings.lives, stateOfPlayer(player), work.now.getTime());
};

export type LivesRequest = Pick<LivesChange, "amount" | "refill" | "unlimitedSeconds" | "reason" | "cause">;

/**
 * Changes lives by REST. A loss of more than the player has changes nothing; a gain is capped at the maximum.
 * @throws DomainError CONFLICT: LIVES_DISABLED, INSUFFICIENT_LIVES, PLAYER_INACTIVE
 */
export const changeLives = async (
  work: Work,
  player: PlayerKey,
  request: LivesRequest,
): Promise<LivesView> => {
  const { value } = await changePlayer(work, player, (opened) => {
    if ((request.amount ?? 0) >= 0) checkActive(opened.player);
    const { problem } = adjustLives(opened, { ...request, onInsufficient: "REFUSE", key: `api:${newId()}` });
    if (problem === "LIVES_DISABLED") throw conflict(problem, "this project has no lives");
    if (problem !== undefined) throw conflict(problem, "the player does not have as many lives");
    return () => showLives(opened.project.settings.lives, opened.player, opened.nowMs)!;
  });
  return value;
};
