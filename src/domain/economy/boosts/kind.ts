import { definitionKind } from "../definitions/definitions.ts";
import { isActiveKey } from "../definitions/references.ts";
import { conflict, invalid, notFound } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { CampaignBoost, campaignBoostShape, showCampaign } from "../../evaluation/boosts/campaign-boost.ts";
import { changeFreePlayers, type PlayersOf } from "../../progression/moved-ends.ts";
import {
  BOOSTS_MAX,
  endBoost,
  endDueBoosts,
  isRunning,
  type NewBoost,
  showBoost,
  startBoost,
} from "../../evaluation/boosts/boosts.ts";
import type { BoostView } from "../../kernel/events/shapes.ts";
import { changePlayer, type PlayerKey } from "../../progression/change.ts";
import type { Player } from "../../players/player.ts";
import { stateOfPlayer } from "../../progression/load.ts";
import { loadStates } from "../../progression/load-states.ts";
import { boosts, segments } from "../../progression/parts/part.ts";
import { projectPlans, readPlan } from "../../progression/plan.ts";
import { checkActive, type PlayerState } from "../../evaluation/player-state.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import type { Turn } from "../../evaluation/turn.ts";

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
    checkActive(turn.player);
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

/** The table whose due rows are processed: see findDue. */
export const DUE_BOOSTS = { table: "player_boosts" } as const;

/** Ends the players' expired boosts. Idempotent. */
export const endPlayersBoosts = (work: Work, players: PlayersOf): Promise<void> =>
  changeFreePlayers(work, players, endDueBoosts);

/** A board may be created after its campaign; an unknown currency or segment is a mistake. */
const check = async (
  work: Work,
  projectId: string,
  { applies, segmentKey }: CampaignBoost,
): Promise<void> => {
  const [target, currencyKey] = applies.split(":") as [string, string?];
  if (target === "currency" && !(await isActiveKey(work, projectId, { kind: "currency", key: currencyKey! })))
    throw invalid("applies", `there is no currency ${currencyKey}`);
  if (segmentKey !== undefined && !(await isActiveKey(work, projectId, { kind: "segment", key: segmentKey })))
    throw invalid("segmentKey", `there is no segment ${segmentKey}`);
};

export const campaignBoostKind = definitionKind<CampaignBoost>({
  kind: "boost",
  example: {
    key: "double-weekend",
    name: "Double XP",
    applies: "xp",
    factor: 2,
    startsAt: "2026-03-07T00:00:00Z",
    expiresAt: "2026-03-09T00:00:00Z",
  },
  plural: "boosts",
  tag: "Boosts",
  schema: CampaignBoost,
  shape: campaignBoostShape,
  max: 100,
  check,
});
