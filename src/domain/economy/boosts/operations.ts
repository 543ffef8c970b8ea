import { conflict, invalid, notFound } from "../../kernel/errors.ts";
import type { BoostView } from "../../kernel/events/shapes.ts";
import { changePlayer, type PlayerKey } from "../../progression/change.ts";
import type { Player } from "../../players/player.ts";
import { stateOfPlayer } from "../../progression/players/show.ts";
import { loadStates } from "../../progression/load-states.ts";
import { boosts, segments } from "../../progression/parts/part.ts";
import { projectPlans, readPlan } from "../../progression/plan.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import type { Turn } from "../../evaluation/turn.ts";
import type { Work } from "../../kernel/work.ts";
import {
  BOOSTS_MAX,
  endBoost,
  isRunning,
  type NewBoost,
  showBoost,
  startBoost,
} from "../../evaluation/boosts/boosts.ts";
import { showCampaign } from "../../evaluation/boosts/campaign-boost.ts";

/** Lists a player's own boosts that have not ended, and the campaigns active for the player. */
export const listBoosts = async (work: Work, player: Player): Promise<BoostView[]> => {
  const plan = await readPlan(work, player.projectId, projectPlans);
  const state = stateOfPlayer(player);
  await loadStates(work, [state], [plan], BOOST_PARTS);
  return shownBoosts(state, plan, work.now.getTime());
};

/** What boosts are shown by. */
export const BOOST_PARTS = [boosts, segments];

/** Returns the boosts of a player whose parts are loaded, as `listBoosts` does. */
export const shownBoosts = (state: PlayerState, plan: ProjectPlan, at: number): BoostView[] => {
  const own = [...state.boosts.values()].filter(({ expiresMs }) => expiresMs > at);
  const campaigns = plan.boosts.filter((campaign) => isRunning({ player: state, event: { at } }, campaign));
  return [
    ...own.toSorted((a, b) => a.expiresMs - b.expiresMs).map(showBoost),
    ...campaigns.map(showCampaign),
  ];
};

/**
 * Starts a boost by REST.
 * @throws DomainError VALIDATION_ERROR for an unknown currency or leaderboard; CONFLICT: BOOST_LIMIT,
 * PLAYER_INACTIVE
 */
export const boostPlayer = async (work: Work, player: PlayerKey, boost: NewBoost): Promise<BoostView> => {
  const { value } = await changePlayer(work, player, (turn) => {
    const { status } = turn.player;
    if (status !== "ACTIVE") throw conflict("PLAYER_INACTIVE", `the player is ${status}`);
    checkTarget(turn, boost.applies);
    const started = startBoost(turn, boost).boost;
    if (!started) throw conflict("BOOST_LIMIT", `a player may have at most ${BOOSTS_MAX} boosts`);
    return () => showBoost(started);
  });
  return value;
};

const checkTarget = ({ project }: Turn, applies: string): void => {
  const [target, key = ""] = applies.split(":") as [string, string?];
  if (target === "currency" && !project.currencies.has(key))
    throw invalid("applies", `there is no currency ${key}`);
  if (target === "score" && !project.boardsByKey.has(key))
    throw invalid("applies", `there is no leaderboard ${key}`);
};

/** Ends one of a player's own boosts early. @throws DomainError NOT_FOUND */
export const removeBoost = async (work: Work, player: PlayerKey, boostId: string): Promise<void> => {
  await changePlayer(work, player, (turn) => {
    const row = turn.player.boosts.get(boostId);
    if (!row || row.expiresMs <= turn.nowMs) throw notFound("boost");
    endBoost(turn, row, "REMOVED");
    return () => undefined;
  });
};
