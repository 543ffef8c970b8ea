import type { PlayerState } from "../evaluation/player-state.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import type { Work } from "../kernel/work.ts";
import { loadStates } from "../progression/load-states.ts";
import { entries } from "../progression/parts/entries.ts";
import { readOtherTiers } from "./read-followed.ts";
import { readRewardsOfTiers, type Rewards } from "./read-tier-rewards.ts";
import type { FollowedBadge, LostRewards } from "./record.ts";

/** A player with the badges that follow counters of the reverted events; their tiers may be raised. */
type Following = { player: PlayerState; followed: Map<string, FollowedBadge> };
type Query = { players: readonly Following[]; eventIds: readonly string[] };

const fallingOf = ({ player, followed }: Following): string[] =>
  [...followed].filter(([key, { tier }]) => tier < player.badges.get(key)!.tier).map(([key]) => key);

/** Raises the tiers to those that were awarded otherwise, and reads what was given for the lost ones. */
export const readLost = async (
  work: Work,
  plan: ProjectPlan,
  { players, eventIds }: Query,
): Promise<Map<string, Rewards>> => {
  const keysOf = new Map(
    players.map((one) => [one.player.id, fallingOf(one)] as const).filter(([, keys]) => keys.length > 0),
  );
  if (keysOf.size === 0) return new Map();
  const others = await readOtherTiers(work, plan.projectId, { keysOf, eventIds });
  const tiersOf = new Map<string, Map<string, number>>();
  for (const one of players) {
    const { player, followed } = one;
    for (const [key, tier] of others.get(player.id) ?? []) {
      const badge = followed.get(key)!;
      followed.set(key, { ...badge, tier: Math.max(badge.tier, tier) });
    }
    const tiers = new Map(fallingOf(one).map((key) => [key, followed.get(key)!.tier]));
    if (tiers.size > 0) tiersOf.set(player.id, tiers);
  }
  const rewards = await readRewardsOfTiers(work, plan.projectId, { tiersOf, eventIds });
  await loadListsOf(work, plan, { players: players.map(({ player }) => player), rewards });
  return rewards;
};

const timesOf = (lost: readonly LostRewards[]): number[] => lost.map(({ atMs }) => atMs);

/** Loads the lists of boards of those times, on which the rewards were gained. */
const loadListsOf = async (
  work: Work,
  plan: ProjectPlan,
  { players, rewards }: { players: readonly PlayerState[]; rewards: ReadonlyMap<string, Rewards> },
): Promise<void> => {
  if (plan.boardIndex.gains.length === 0) return;
  const those = players
    .map((player) => ({ player, timesMs: timesOf(rewards.get(player.id)?.lost ?? []) }))
    .filter(({ timesMs }) => timesMs.length > 0)
    .map(({ player, timesMs }) => ({
      player,
      past: { ...player, timesMs, lists: new Map(), entries: new Map() } satisfies PlayerState,
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
