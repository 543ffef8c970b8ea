import { sql } from "kysely";
import type { PastEvent } from "../evaluation/metrics/count.ts";
import { type CounterState, isReversible } from "../evaluation/metrics/counters.ts";
import type { Work } from "../kernel/work.ts";
import { loadStates } from "../progression/load-states.ts";
import { entries } from "../progression/parts/entries.ts";
import {
  countersWithout,
  type Follower,
  followersOf,
  type Owner,
  progressOf,
  tierNow,
  type Touched,
} from "./counters-without.ts";
import { readRewardsOfTiers } from "./read-tier-rewards.ts";
import { type Recounted, recount } from "./recount.ts";
import type { CausedGrant, FollowedBadge, LostRewards } from "./record.ts";
import type { CounterStarts } from "./reverse-counters.ts";

/** What the counters of an event, and the badges that follow them, are without it. */
export type Followed = {
  recounted: ReadonlyMap<string, CounterState | undefined>;
  followed: ReadonlyMap<string, FollowedBadge>;
  lost: readonly LostRewards[];
  /** Of tiers that are lost. */
  grants: readonly CausedGrant[];
  /** What cannot be determined, in words. */
  left: readonly string[];
};

type Reverted = {
  event: { id: string; receivedMs: number };
  /** The event as it was counted, with those derived from it. */
  past: readonly PastEvent[];
  starts: CounterStarts;
  /** All events that are reverted together. */
  eventIds: readonly string[];
};

/**
 * Determines the tiers that badges have without an event. A badge keeps its tier while the counter meets its
 * threshold, or has met it, whichever event gave the tier; also a tier that was awarded otherwise.
 */
export const readFollowed = async (work: Work, owner: Owner, reverted: Reverted): Promise<Followed> => {
  const { event, past, starts } = reverted;
  const touched = countersWithout(owner, past, { starts, receivedMs: event.receivedMs });
  const unsure = touched.filter((one) => isUnsure(owner, one)).map(({ metric }) => metric);
  const recounts =
    unsure.length === 0
      ? new Map<string, Recounted>()
      : await recount(work, owner, { metrics: unsure, starts, eventId: event.id });
  const found: Found = { recounted: new Map(), followed: new Map(), left: [] };
  for (const one of touched) addFollowers(owner, one, { again: recounts.get(one.metric.id), found });
  return { ...found, ...(await readLost(work, owner, { ...reverted, followed: found.followed })) };
};

type Found = {
  recounted: Map<string, CounterState | undefined>;
  followed: Map<string, FollowedBadge>;
  left: string[];
};

const addFollowers = (
  owner: Owner,
  touched: Touched,
  { again, found }: { again: Recounted | undefined; found: Found },
): void => {
  const { metric } = touched;
  const mustRecount = !isReversible(metric);
  if (mustRecount && again) found.recounted.set(metric.id, again.state);
  const known = mustRecount ? again && { ...touched, state: again.state } : touched;
  for (const follower of followersOf(owner, metric)) {
    const { key } = follower.badge.definition;
    const tier = known && tierOf(known, follower, again);
    if (tier === undefined) found.left.push(`badge ${key}: whether its tier was reached without the event`);
    else found.followed.set(key, { tier, progress: progressOf(metric, known!.state, known!.moment) });
  }
};

const isUnsure = (owner: Owner, one: Touched): boolean =>
  !isReversible(one.metric) ||
  followersOf(owner, one.metric).some((follower) => tierNow(one, follower) === undefined);

const tierOf = (one: Touched, follower: Follower, again: Recounted | undefined): number | undefined => {
  const now = tierNow(one, follower);
  if (now !== undefined || !again) return now;
  return Math.min(follower.held.tier, again.tiers.get(follower.badge.definition.key) ?? 0);
};

type Lost = Reverted & { followed: Map<string, FollowedBadge> };

/** Raises the tiers to those that were awarded otherwise, and reads what was given for the lost ones. */
const readLost = async (
  work: Work,
  owner: Owner,
  { eventIds, followed }: Lost,
): Promise<Pick<Followed, "lost" | "grants">> => {
  const falling = (): string[] =>
    [...followed].filter(([key, { tier }]) => tier < owner.player.badges.get(key)!.tier).map(([key]) => key);
  const keys = falling();
  if (keys.length === 0) return { lost: [], grants: [] };
  for (const [key, tier] of await readOtherTiers(work, owner, { keys, eventIds })) {
    const badge = followed.get(key)!;
    followed.set(key, { ...badge, tier: Math.max(badge.tier, tier) });
  }
  const tiers = new Map(falling().map((key) => [key, followed.get(key)!.tier]));
  const rewards = await readRewardsOfTiers(work, owner.player, { tiers, eventIds });
  await loadListsOf(work, owner, rewards.lost);
  return rewards;
};

/** Loads the lists of boards of those times, on which the rewards were gained. */
const loadListsOf = async (
  work: Work,
  { player, project }: Owner,
  lost: readonly LostRewards[],
): Promise<void> => {
  if (lost.length === 0 || project.boardIndex.gains.length === 0) return;
  const then = { ...player, timesMs: lost.map(({ atMs }) => atMs), lists: new Map(), entries: new Map() };
  await loadStates(work, [then], [project], [entries]);
  for (const [id, list] of then.lists) {
    if (player.lists.has(id)) continue;
    player.lists.set(id, list);
    const entry = then.entries.get(id);
    if (entry) player.entries.set(id, entry);
  }
};

type Query = { keys: readonly string[]; eventIds: readonly string[] };

/**
 * Reads the highest tiers that badges have by awards other than those of their counters: of rules, requests,
 * levels and merges, since each badge was last revoked.
 */
export const readOtherTiers = async (
  { db }: Work,
  { player: { id, projectId } }: { player: { id: string; projectId: string } },
  { keys, eventIds }: Query,
): Promise<Map<string, number>> => {
  const found = await sql<{ key: string; tier: number }>`
    select a.badge_key as key, max(a.tier) as tier
    from badge_awards a left join lateral (
      select r.created_at, r.id from badge_awards r
      where r.project_id = a.project_id and r.player_id = a.player_id and r.badge_key = a.badge_key
        and r.action = 'REVOKED'
      order by r.created_at desc, r.id desc limit 1) r on true
    where a.project_id = ${projectId} and a.player_id = ${id} and a.action = 'AWARDED'
      and a.badge_key in (select json_array_elements_text(${JSON.stringify(keys)}::json))
      and not (a.cause->>'kind' = 'BADGE' and a.cause->>'refKey' = a.badge_key)
      and (r.id is null or (a.created_at, a.id) > (r.created_at, r.id))
      and (a.event_id is null or a.idempotency_key like 'lvl:%'
        or a.event_id <> all(${`{${eventIds.join(",")}}`}::uuid[]))
      and not exists (select 1 from event_results e where e.project_id = a.project_id
        and e.event_id = a.event_id and e.status = 'REVERTED')
    group by a.badge_key`.execute(db);
  return new Map(found.rows.map(({ key, tier }) => [key, tier]));
};
