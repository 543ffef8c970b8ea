import { sql } from "kysely";
import type { Moment } from "../evaluation/boards/board.ts";
import { type CompiledMetric, type CounterState } from "../evaluation/metrics/compile.ts";
import { isSubtractable } from "../evaluation/metrics/aggregates.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import type { Work } from "../kernel/work.ts";
import { loadStates } from "../progression/load-states.ts";
import { entries } from "../progression/parts/entries.ts";
import {
  type CountedEvent,
  type CounterStarts,
  countersWithout,
  type Due,
  dueNow,
  type Follower,
  followersOf,
  leastProgress,
  lesser,
  openRecount,
  type Owner,
  type Recounted,
  type Recounting,
  type Touched,
} from "./counters-without.ts";
import { AWARD_NUMBER, readGoalRewards, readRewards, type Rewards } from "./read-record.ts";
import { type FollowedBadge, type LoggedAward, lostAwards, type LostRewards } from "./record.ts";

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
type Following = {
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
  const mustRecount = !isSubtractable(metric.aggregate);
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
  !isSubtractable(one.metric.aggregate) ||
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

/** Tiers and repeated awards of a badge whose rewards are taken back. */
type LostOfBadge = {
  badgeKey: string;
  /** Tiers from this one to that one. */
  from: number;
  to: number;
  /** Awards with a higher number than this. */
  above: number;
  /** Only what events have given that were reverted before. */
  isOfReverted: boolean;
};

type TierQuery = {
  /** By player. */
  lostOf: ReadonlyMap<string, readonly LostOfBadge[]>;
  /** Events whose effects are read elsewhere. */
  eventIds: readonly string[];
};

/** No badge has as many tiers or awards. */
const NUMBER_MAX = 2_147_483_647;
/** The tier of an award in the keys of its rewards. */
const TIER = "^bdg:[^:]+:[0-9]+:([0-9]+)";

/**
 * Reads what players were given for awards of badges that are lost, by other events; by player.
 * @throws DomainError CONFLICT EVENT_TOO_LARGE
 */
const readRewardsOfTiers = async (
  work: Work,
  projectId: string,
  { lostOf, eventIds }: TierQuery,
): Promise<Map<string, Rewards>> => {
  const wanted = [...lostOf].flatMap(([i, all]) =>
    all.map(({ badgeKey, from, to, above, isOfReverted }) => ({
      i,
      x: `bdg:${badgeKey}:`,
      f: from,
      t: Math.min(to, NUMBER_MAX),
      n: Math.min(above, NUMBER_MAX),
      r: isOfReverted,
    })),
  );
  if (wanted.length === 0) return new Map();
  const those = sql`(select i, json_agg(json_build_object('x', x, 'f', f, 't', t, 'n', n, 'r', r)) as xs
    from json_to_recordset(${JSON.stringify(wanted)}::json) as x(i uuid, x text, f int, t int, n int, r bool)
    group by i) w`;
  return readRewards(work, projectId, {
    those,
    isLost: (key, eventId) => sql`exists (
      select 1 from json_to_recordset(w.xs) as p(x text, f int, t int, n int, r bool)
      where starts_with(${key}, p.x)
        and (substring(${key} from ${TIER})::int between p.f and p.t
          or substring(${key} from ${AWARD_NUMBER})::int > p.n)
        and (not p.r or exists (select 1 from event_results e where e.project_id = ${projectId}
          and e.event_id = ${eventId} and e.status = 'REVERTED')))`,
    playerIds: [...lostOf.keys()],
    eventIds,
    what: "a tier of a badge",
  });
};

/** A player with the badges that follow counters of the reverted events; their tiers may be raised. */
type FollowingLoss = {
  player: PlayerState;
  followed: Map<string, FollowedBadge>;
  /** What cannot be determined, in words. */
  left: string[];
  /** Awards by the events, with those that the badges have otherwise. */
  log: readonly LoggedAward[];
};
type LossQuery = {
  players: readonly FollowingLoss[];
  /** Rewards of quests and adventures, as `rewardOfGoal` names them, by player. */
  ofGoals: ReadonlyMap<string, ReadonlySet<string>>;
  eventIds: readonly string[];
};

/** What is lost of badges: by the events, and with them by others. */
type Lost = {
  rewards: Rewards | undefined;
  /** Awards of the events whose rewards are taken back, as `awardName` names them. */
  awards: Set<string>;
};

const isFalling = ({ player, followed }: FollowingLoss, key: string): boolean => {
  const { tier, times } = followed.get(key)!;
  const held = player.badges.get(key)!;
  return tier < held.tier || times < held.timesAwarded;
};

const fallingOf = (one: FollowingLoss): string[] =>
  [...one.followed.keys()].filter((key) => isFalling(one, key));

/** Raises the tiers to those that were awarded otherwise, and reads what was given for the lost ones. */
export const readLost = async (
  work: Work,
  plan: ProjectPlan,
  { players, ofGoals, eventIds }: LossQuery,
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
  { player, followed, left }: FollowingLoss,
  { key, tier }: { key: string; tier: number },
): void => {
  const badge = followed.get(key)!;
  const held = player.badges.get(key)!;
  const isRepeatable = badges.get(key)?.definition.repeatable === true;
  if (isRepeatable && badge.times < held.timesAwarded)
    left.push(`badge ${key}: how often its counter has awarded it`);
  const raised = Math.max(badge.tier, Math.min(tier, held.tier));
  followed.set(key, { ...badge, times: held.timesAwarded, tier: raised });
};

const lostOfPlayer = (one: FollowingLoss): { badges: LostOfBadge[]; awards: Set<string> } => {
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
