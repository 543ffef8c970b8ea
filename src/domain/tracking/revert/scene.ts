import { sql } from "kysely";
import { noEffects } from "../../progression/evaluate.ts";
import { loadStates, lockPlayersById } from "../../progression/load.ts";
import { PLAYER_PARTS } from "../../progression/parts/parts.ts";
import type { ProjectPlan } from "../../progression/plan.ts";
import {
  lockSharedCounters,
  type SharedCounters,
  type SharedKey,
} from "../../progression/shared-counters.ts";
import type { Effects } from "../../progression/effects.ts";
import type { PlayerState } from "../../progression/turn.ts";
import { limitedKey } from "../../rewards/shared-keys.ts";
import type { Work } from "../../work.ts";
import {
  type Caused,
  readBoardStarts,
  readCounterStarts,
  readLongestRuns,
  readRules,
} from "./read-record.ts";
import { readOtherScores } from "./read-scores.ts";
import type { PlayerRecord, Reversal, RevertedEvent } from "./record.ts";
import type { ReverseContext } from "./reverse.ts";
import { type FiredRules, sharedKeysOfFirings } from "./reverse-firings.ts";

/** The player of an external id; whoever was merged is the other one. */
export const playerIdOf = async (
  { db }: Work,
  projectId: string,
  externalUserId: string,
): Promise<string | undefined> => {
  const found = await sql<{ id: string }>`
    select coalesce(merged_into, id) as id from players
    where project_id = ${projectId} and external_user_id = ${externalUserId}`.execute(db);
  return found.rows[0]?.id;
};

/** Locks everyone whom the events have reached. */
export const lockAll = async (
  work: Work,
  plan: ProjectPlan,
  { caused, ownerId, timesMs }: { caused: Caused; ownerId: string | undefined; timesMs: readonly number[] },
): Promise<Map<string, PlayerState>> => {
  const reached = Object.values(caused).flatMap((rows: { playerId: string }[]) =>
    rows.map(({ playerId }) => playerId),
  );
  const ids = new Set(ownerId === undefined ? reached : [...reached, ownerId]);
  const players = await lockPlayersById(work, plan.projectId, [...ids]);
  for (const player of players.values()) player.timesMs = timesMs;
  await loadStates(work, [...new Set(players.values())], [plan], [...PLAYER_PARTS]);
  return players;
};

/** What events are taken back in. */
export type Scene = Omit<ReverseContext, "reversal"> & {
  plan: ProjectPlan;
  /** By the id under which they were reached. */
  players: ReadonlyMap<string, PlayerState>;
  caused: Caused;
  shared: SharedCounters;
  effects: Effects;
  reversal: Reversal;
};

type Held = Pick<Scene, "caused" | "players" | "reversal"> & { done: readonly RevertedEvent[] };

/** Reads what else is needed, and locks what the players share. */
export const readScene = async (
  work: Work,
  plan: ProjectPlan,
  { done, caused, players, reversal }: Held,
): Promise<Scene> => {
  const { projectId } = plan;
  const { rules, left } = await readRules(work, projectId, caused.firings);
  for (const what of left) reversal.left.add(what);
  const keys = sharedKeysOf(plan, { done, caused, rules });
  return {
    plan,
    players,
    caused,
    rules,
    counterStarts: await readCounterStarts(work, projectId, plan),
    boardStarts: await readBoardStarts(work, projectId),
    shared: await lockSharedCounters(work, keys),
    effects: noEffects(),
    reversal,
  };
};

const sharedKeysOf = (
  plan: ProjectPlan,
  { done, caused, rules }: { done: readonly RevertedEvent[]; caused: Caused; rules: FiredRules },
): SharedKey[] => {
  const { projectId, badges, rewards } = plan;
  const ofFirings = done.flatMap(({ id, at: atMs }) => {
    const firings = caused.firings.filter(({ eventId }) => eventId === id);
    return sharedKeysOfFirings(rules, firings, { project: plan, atMs });
  });
  const ofBadges = caused.awards
    .filter(({ badgeKey }) => badges.get(badgeKey)?.definition.maxAwards !== undefined)
    .map(({ badgeKey }) => limitedKey(projectId, "badge", badgeKey));
  const ofRewards = caused.grants
    .filter(({ rewardKey }) => rewards.get(rewardKey)?.definition.stock !== undefined)
    .map(({ rewardKey }) => limitedKey(projectId, "reward", rewardKey));
  return [...ofFirings, ...ofBadges, ...ofRewards];
};

/** What one event has caused for one player. */
export const recordOf = async (
  work: Work,
  { plan, players, caused, boardStarts: starts }: Scene,
  { event, player, isOwn }: { event: RevertedEvent; player: PlayerState; isOwn: boolean },
): Promise<PlayerRecord> => {
  const isOf = ({ eventId, playerId }: { eventId: string | null; playerId: string }): boolean =>
    eventId === event.id && players.get(playerId) === player;
  return {
    event,
    ledger: caused.ledger.filter(isOf),
    awards: caused.awards.filter(({ playerId }) => players.get(playerId) === player),
    grants: caused.grants.filter(isOf),
    firings: caused.firings.filter(isOf),
    told: caused.told.filter(isOf),
    longestRuns: isOwn ? await readLongestRuns(work, plan.projectId, player.id) : new Map(),
    scores: isOwn ? await readOtherScores(work, { plan, player, event, starts }) : new Map(),
    isOwn,
  };
};
