import type { Moment } from "../evaluation/boards/list.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import type { Work } from "../kernel/work.ts";
import { loadStates } from "../progression/load-states.ts";
import { entries } from "../progression/parts/entries.ts";
import { lostAwards } from "./award-log.ts";
import { readOtherTiers } from "./read-followed.ts";
import { readGoalRewards } from "./goal-rewards.ts";
import type { Rewards } from "./read-rewards.ts";
import { type LostOfBadge, readRewardsOfTiers } from "./read-tier-rewards.ts";
import type { FollowedBadge, LoggedAward, LostRewards } from "./record.ts";

/** A player with the badges that follow counters of the reverted events; their tiers may be raised. */
type Following = {
  player: PlayerState;
  followed: Map<string, FollowedBadge>;
  /** What cannot be determined, in words. */
  left: string[];
  /** Awards by the events, with those that the badges have otherwise. */
  log: readonly LoggedAward[];
};
type Query = {
  players: readonly Following[];
  /** Rewards of quests and adventures, as `rewardOfGoal` names them, by player. */
  ofGoals: ReadonlyMap<string, ReadonlySet<string>>;
  eventIds: readonly string[];
};

/** What is lost of badges: by the events, and with them by others. */
export type Lost = {
  rewards: Rewards | undefined;
  /** Awards of the events whose rewards are taken back, as `awardName` names them. */
  awards: Set<string>;
};

const isFalling = ({ player, followed }: Following, key: string): boolean => {
  const { tier, times } = followed.get(key)!;
  const held = player.badges.get(key)!;
  return tier < held.tier || times < held.timesAwarded;
};

const fallingOf = (one: Following): string[] => [...one.followed.keys()].filter((key) => isFalling(one, key));

/** Raises the tiers to those that were awarded otherwise, and reads what was given for the lost ones. */
export const readLost = async (
  work: Work,
  plan: ProjectPlan,
  { players, ofGoals, eventIds }: Query,
): Promise<Map<string, Lost>> => {
  const keysOf = new Map(
    players.map((one) => [one.player.id, fallingOf(one)] as const).filter(([, keys]) => keys.length > 0),
  );
  const others =
    keysOf.size === 0
      ? new Map<string, Map<string, number>>()
      : await readOtherTiers(work, plan.projectId, { keysOf, eventIds });
  for (const one of players)
    for (const [key, tier] of others.get(one.player.id) ?? []) raise(plan, one, { key, tier });
  const lostBy = new Map(players.map((one) => [one.player.id, lostOfPlayer(one)]));
  const lostOf = new Map([...lostBy].map(([id, { badges }]) => [id, badges]));
  const rewards = joined(
    await readRewardsOfTiers(work, plan.projectId, { lostOf, eventIds }),
    await readGoalRewards(work, plan.projectId, { lostOf: ofGoals, eventIds }),
  );
  await loadListsOf(work, plan, { players: players.map(({ player }) => player), rewards });
  return new Map([...lostBy].map(([id, { awards }]) => [id, { rewards: rewards.get(id), awards }]));
};

const joined = (a: Map<string, Rewards>, b: Map<string, Rewards>): Map<string, Rewards> => {
  const all = new Map(a);
  for (const [id, { lost, grants }] of b) {
    const known = all.get(id) ?? { lost: [], grants: [] };
    all.set(id, { lost: [...known.lost, ...lost], grants: [...known.grants, ...grants] });
  }
  return all;
};

/** A badge that was awarded otherwise too: how often the counter has awarded it depends on the order. */
const raise = (
  { badges }: ProjectPlan,
  { player, followed, left }: Following,
  { key, tier }: { key: string; tier: number },
): void => {
  const badge = followed.get(key)!;
  const held = player.badges.get(key)!;
  const isRepeatable = badges.get(key)?.definition.repeatable === true;
  if (isRepeatable && badge.times < held.timesAwarded)
    left.push(`badge ${key}: how often its counter has awarded it`);
  const times = isRepeatable ? held.timesAwarded : badge.times;
  followed.set(key, { ...badge, times, tier: Math.max(badge.tier, Math.min(tier, held.tier)) });
};

const lostOfPlayer = (one: Following): { badges: LostOfBadge[]; awards: Set<string> } => {
  const { player, followed, log } = one;
  const badges: LostOfBadge[] = fallingOf(one).map((badgeKey) => {
    const { tier, times } = followed.get(badgeKey)!;
    return { badgeKey, from: tier + 1, to: Infinity, above: times, isOfReverted: false };
  });
  const awards = new Set<string>();
  for (const [badgeKey, ofBadge] of Map.groupBy(log, (award) => award.badgeKey)) {
    const held = player.badges.get(badgeKey)?.tier ?? 0;
    const { lost, tiers } = lostAwards(ofBadge, { followed: followed.get(badgeKey), held });
    for (const name of lost) awards.add(name);
    for (const tier of tiers)
      badges.push({ badgeKey, from: tier, to: tier, above: Infinity, isOfReverted: true });
  }
  return { badges, awards };
};

const momentsOf = (lost: readonly LostRewards[]): Moment[] => lost.map(({ atMs }) => ({ at: atMs }));

/** Loads the lists of boards of those times, on which the rewards were gained. */
const loadListsOf = async (
  work: Work,
  plan: ProjectPlan,
  { players, rewards }: { players: readonly PlayerState[]; rewards: ReadonlyMap<string, Rewards> },
): Promise<void> => {
  if (plan.boardIndex.gains.length === 0) return;
  const those = players
    .map((player) => ({ player, moments: momentsOf(rewards.get(player.id)?.lost ?? []) }))
    .filter(({ moments }) => moments.length > 0)
    .map(({ player, moments }) => ({
      player,
      past: { ...player, moments, lists: new Map(), entries: new Map() } satisfies PlayerState,
    }));
  if (those.length === 0) return;
  await loadStates(
    work,
    those.map(({ past }) => past),
    [plan],
    [entries],
  );
  for (const { player, past } of those) adopt(player, past);
};

const adopt = (player: PlayerState, past: PlayerState): void => {
  for (const [id, list] of past.lists) {
    if (player.lists.has(id)) continue;
    player.lists.set(id, list);
    const entry = past.entries.get(id);
    if (entry) player.entries.set(id, entry);
  }
};
