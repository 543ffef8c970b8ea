import { sql } from "kysely";
import type { CounterState } from "../evaluation/metrics/counters.ts";
import { isReversible } from "../evaluation/metrics/counters.ts";
import type { CompiledMetric } from "../evaluation/metrics/compile.ts";
import type { Work } from "../kernel/work.ts";
import {
  type CountedEvent,
  countersWithout,
  type Follower,
  followersOf,
  type Due,
  dueNow,
  leastProgress,
  lesser,
  type Owner,
  type Touched,
} from "./counters-without.ts";
import { openRecount, type Recounted, type Recounting } from "./recount.ts";
import type { FollowedBadge } from "./record.ts";
import type { CounterStarts } from "./reverse-counters.ts";

/** What the counters of a player's events, and the badges that follow them, are without all of these. */
export type Followed = {
  recounted: ReadonlyMap<string, CounterState | undefined>;
  followed: Map<string, FollowedBadge>;
  /** Keys of the badges that follow counters of an event, by its id. */
  badgesOf: ReadonlyMap<string, ReadonlySet<string>>;
  /** What cannot be determined, in words. */
  left: string[];
};

type Reverted = { events: readonly CountedEvent[]; starts: CounterStarts };

/**
 * Determines the tiers that badges have without events. A badge keeps its tier while the counter meets its
 * threshold, or has met it, whichever event gave the tier.
 */
export type Following = {
  /** Counts the player's events again; undefined where that is not needed. */
  recounting: Recounting | undefined;
  /** @param recounts undefined where the events could not be counted again */
  result(recounts: ReadonlyMap<string, Recounted> | undefined): Followed;
};

/** Opens determining what badges are without events: it may need the player's others. */
export const openFollowing = (owner: Owner, { events, starts }: Reverted): Following => {
  const touched = countersWithout(owner, events, starts);
  const metrics: CompiledMetric[] = touched.filter((one) => isUnsure(owner, one)).map(({ metric }) => metric);
  const eventIds = new Set(events.map(({ id }) => id));
  return {
    recounting: metrics.length === 0 ? undefined : openRecount(owner, { metrics, starts, eventIds }),
    result: (recounts) => followedBy(owner, touched, recounts ?? new Map()),
  };
};

type Found = {
  recounted: Map<string, CounterState | undefined>;
  followed: Map<string, FollowedBadge>;
  badgesOf: Map<string, Set<string>>;
  left: string[];
};

const followedBy = (
  owner: Owner,
  touched: readonly Touched[],
  recounts: ReadonlyMap<string, Recounted>,
): Followed => {
  const found: Found = { recounted: new Map(), followed: new Map(), badgesOf: new Map(), left: [] };
  for (const one of touched) addFollowers(owner, one, { again: recounts.get(one.metric.id), found });
  return found;
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
    const due = known && dueOf(known, follower, again);
    if (due === undefined) {
      found.left.push(`badge ${key}: whether its tier was reached without the event`);
      continue;
    }
    found.followed.set(key, { ...due, progress: leastProgress(known!) });
    for (const id of touched.by) {
      const keys = found.badgesOf.get(id) ?? new Set();
      found.badgesOf.set(id, keys.add(key));
    }
  }
};

const isUnsure = (owner: Owner, one: Touched): boolean =>
  !isReversible(one.metric) ||
  followersOf(owner, one.metric).some((follower) => dueNow(one, follower) === undefined);

const dueOf = (one: Touched, follower: Follower, again: Recounted | undefined): Due | undefined => {
  const now = dueNow(one, follower);
  if (now !== undefined || !again) return now;
  return lesser(again.due.get(follower.badge.definition.key) ?? { tier: 0, times: 0 }, follower);
};

type Query = {
  /** Keys of badges, by player. */
  keysOf: ReadonlyMap<string, readonly string[]>;
  eventIds: readonly string[];
};

/**
 * Reads the highest tiers that badges have by awards other than those of their counters: of rules, requests,
 * levels and merges, since each badge was last revoked; by player and key. 0 if all these were revoked;
 * absent where there is neither such an award nor a revocation.
 */
export const readOtherTiers = async (
  { db }: Work,
  projectId: string,
  { keysOf, eventIds }: Query,
): Promise<Map<string, Map<string, number>>> => {
  const wanted = [...keysOf].flatMap(([i, keys]) => keys.map((k) => ({ i, k })));
  const found = await sql<{ playerId: string; key: string; tier: number | null }>`
    select a.player_id as "playerId", a.badge_key as key, max(a.tier) filter (where a.action = 'AWARDED'
      and (r.id is null or (a.created_at, a.id) > (r.created_at, r.id))) as tier
    from json_to_recordset(${JSON.stringify(wanted)}::json) as w(i uuid, k text)
    join badge_awards a on a.project_id = ${projectId} and a.player_id = w.i and a.badge_key = w.k
    left join lateral (
      select r.created_at, r.id from badge_awards r
      where r.project_id = a.project_id and r.player_id = a.player_id and r.badge_key = a.badge_key
        and r.action = 'REVOKED'
      order by r.created_at desc, r.id desc limit 1) r on true
    where (a.action = 'REVOKED' and a.cause->>'kind' <> 'REVERSAL'
        or a.action = 'AWARDED' and not (a.cause->>'kind' = 'BADGE' and a.cause->>'refKey' = a.badge_key))
      and (a.event_id is null or a.idempotency_key like 'lvl:%'
        or a.event_id <> all(${`{${eventIds.join(",")}}`}::uuid[]))
      and not exists (select 1 from event_results e where e.project_id = a.project_id
        and e.event_id = a.event_id and e.status = 'REVERTED')
    group by a.player_id, a.badge_key`.execute(db);
  const byPlayer = Map.groupBy(found.rows, ({ playerId }) => playerId);
  return new Map(
    [...byPlayer].map(([playerId, rows]) => [
      playerId,
      new Map(rows.map(({ key, tier }) => [key, tier ?? 0])),
    ]),
  );
};
