import { dueTier } from "../evaluation/badges/award.ts";
import type { CompiledBadge } from "../evaluation/badges/badge.ts";
import {
  addToCounter,
  type CompiledMetric,
  type CounterState,
  type Moment,
  readCounter,
  subtractFromCounter,
} from "../evaluation/metrics/compile.ts";
import { isSubtractable } from "../evaluation/metrics/aggregates.ts";
import { type PastEvent, sampleOfEvent } from "../evaluation/metrics/count.ts";
import type { BadgeState, PlayerState } from "../evaluation/player-state.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import type { Turn } from "../evaluation/turn.ts";
import { idFloor } from "../kernel/ids.ts";
import type { Steps } from "../kernel/slices.ts";
import type { Work } from "../kernel/work.ts";
import { type HistoryVisitor, visitHistories } from "./read-submitted.ts";
import type { CausedEvent, Reversal } from "./record.ts";
import type { HistoryEvent } from "../rules/insight/history.ts";

/** When counters began, in ms, by id of the metric: earlier events are not counted in them. */
export type CounterStarts = ReadonlyMap<string, number>;

const CUSTOM = "custom.";

/** Returns the events derived from the event, as far as they were emitted; properties may have been erased. */
export const derivedOf = (emitted: readonly CausedEvent[], at: number): PastEvent[] =>
  emitted.map(({ type, data }) => {
    if (!type.startsWith(CUSTOM)) return { type, at, properties: data };
    const { properties = {} } = data as { properties?: PastEvent["properties"] };
    return { type: type.slice(CUSTOM.length), at, properties };
  });

type Counting = {
  starts: CounterStarts;
  receivedMs: number;
  /** Counters that a sample cannot be subtracted from, by id of the metric. */
  recounted: ReadonlyMap<string, CounterState | undefined>;
  reversal: Reversal;
};

/** Removes events from the counters that counted them, in the windows that are still kept; in pieces. */
export function* reverseCounters(
  turn: Turn,
  events: readonly PastEvent[],
  { starts, receivedMs, recounted, reversal }: Counting,
): Steps<void> {
  for (const event of events) {
    for (const metric of turn.project.metrics.forEvent(event.type)) {
      yield;
      if (receivedMs < (starts.get(metric.id) ?? -Infinity)) continue;
      reverseCounter(turn, metric, { event, recounted, reversal });
    }
  }
}

const reverseCounter = (
  turn: Turn,
  metric: CompiledMetric,
  { event, recounted, reversal }: Pick<Counting, "recounted" | "reversal"> & { event: PastEvent },
): void => {
  const old = turn.player.doc.c?.[metric.id] as CounterState | undefined;
  const counted = sampleOfEvent(metric, turn, event);
  if (old === undefined || !counted) return;
  if (recounted.has(metric.id)) return setCounter(turn, metric, recounted.get(metric.id));
  if (!isSubtractable(metric.aggregate)) {
    const { aggregate, property } = metric.definition;
    reversal.left.add(`counter ${aggregate}(${property ?? ""})`);
    return;
  }
  const next = subtractFromCounter(metric, old, counted.sample, counted.moment);
  if (next !== old) setCounter(turn, metric, next);
};

const setCounter = ({ player }: Turn, { id }: CompiledMetric, next: CounterState | undefined): void => {
  // Changed in place: copying all counters for each event would take far longer.
  if (next === undefined) delete player.doc.c![id];
  else player.doc.c![id] = next;
  player.dirty.doc = true;
};

/** The player whose counters are meant, and the project. */
export type Owner = { player: PlayerState; project: ProjectPlan };

/** An event to be reverted, as it was counted, with those derived from it. */
export type CountedEvent = { id: string; receivedMs: number; past: readonly PastEvent[] };

/** A counter that has counted events. */
export type Touched = {
  metric: CompiledMetric;
  /** As stored, with the events. */
  stored: CounterState;
  /** Without the events; as stored where a sample cannot be subtracted. */
  state: CounterState | undefined;
  /** Of the events, each once. */
  moments: readonly Moment[];
  /** Ids of the reverted events. */
  by: ReadonlySet<string>;
};

/** Returns the player's counter as stored. */
const storedCounter = (owner: Owner, { id }: CompiledMetric): CounterState | undefined =>
  storedCounterById(owner, id);

/** As `storedCounter`, by the id of the metric. */
export const storedCounterById = ({ player }: Owner, id: string): CounterState | undefined =>
  player.doc.c?.[id] as CounterState | undefined;

type Touching = Omit<Touched, "moments" | "by"> & { moments: Map<number, Moment>; by: Set<string> };

/** Returns the counters that the events have changed, with what they are without those. */
export const countersWithout = (
  owner: Owner,
  events: readonly CountedEvent[],
  starts: CounterStarts,
): Touched[] => {
  const touched = new Map<string, Touching>();
  for (const { id, receivedMs, past } of events) {
    for (const event of past) {
      for (const metric of owner.project.metrics.forEvent(event.type)) {
        if (receivedMs < (starts.get(metric.id) ?? -Infinity)) continue;
        touch(owner, metric, { id, event, touched });
      }
    }
  }
  return [...touched.values()].map((one) => ({ ...one, moments: [...one.moments.values()] }));
};

type Touch = { id: string; event: PastEvent; touched: Map<string, Touching> };

const touch = (owner: Owner, metric: CompiledMetric, { id, event, touched }: Touch): void => {
  const stored = storedCounter(owner, metric);
  const counted = sampleOfEvent(metric, owner, event);
  if (stored === undefined || !counted) return;
  const { sample, moment } = counted;
  const before = touched.get(metric.id) ?? {
    metric,
    stored,
    state: stored,
    moments: new Map<number, Moment>(),
    by: new Set<string>(),
  };
  before.by.add(id);
  before.moments.set(isForAllTime(metric) ? 0 : moment.at, moment);
  if (isSubtractable(metric.aggregate))
    before.state = subtractFromCounter(metric, before.state, sample, moment);
  touched.set(metric.id, before);
};

const isForAllTime = ({ window }: CompiledMetric): boolean =>
  window.type === "LIFETIME" || window.type === "SINCE";

/** A badge that follows a counter, with what the player has of it. */
export type Follower = { badge: CompiledBadge; held: BadgeState };

/** Returns the player's badges that follow a counter, without those that somebody has revoked. */
export const followersOf = ({ player, project }: Owner, { id }: CompiledMetric): Follower[] =>
  (project.badgesByMetric.get(id) ?? []).flatMap((badge) => {
    const held = player.badges.get(badge.definition.key);
    return held && held.revokedMs === null ? [{ badge, held }] : [];
  });

/** Returns the progress of badges that follow a counter. */
const progressOf = (metric: CompiledMetric, state: CounterState | undefined, moment: Moment): number =>
  Math.max(0, readCounter(metric, state, moment) ?? 0);

type Standing = Pick<Touched, "metric" | "state" | "moments">;

/** Returns the least progress of badges that follow a counter, at the times of the events. */
export const leastProgress = ({ metric, state, moments }: Standing): number =>
  Math.min(...moments.map((moment) => progressOf(metric, state, moment)));

/** What a counter gives of a badge. */
export type Due = { tier: number; times: number };

/** Returns what progress gives of a badge; a badge that is not repeatable is awarded once. */
const dueAt = ({ definition }: CompiledBadge, progress: number): Due => {
  const tier = dueTier(definition, progress);
  const { tiers, repeatable } = definition;
  const once = tier > 0 ? 1 : 0;
  if (!repeatable || tier < tiers.length) return { tier, times: once };
  return { tier, times: Math.max(once, Math.floor(progress / tiers.at(-1)!.threshold!)) };
};

/**
 * Returns what a badge has by a counter as it is; undefined where that depends on what the counter was
 * before: it may have been higher.
 */
export const dueNow = ({ metric, state, moments }: Standing, follower: Follower): Due | undefined => {
  const { badge, held } = follower;
  const progress = Math.max(...moments.map((moment) => progressOf(metric, state, moment)));
  const due = dueAt(badge, progress);
  const isMet = due.tier >= held.tier && (!badge.definition.repeatable || due.times >= held.timesAwarded);
  if (isMet) return { tier: held.tier, times: held.timesAwarded };
  return neverFalls(metric) && isAlwaysAvailable(badge) ? lesser(due, follower) : undefined;
};

/** A badge never rises by a revert. */
export const lesser = ({ tier, times }: Due, { badge, held }: Follower): Due => {
  const { repeatable } = badge.definition;
  // Somebody may have revoked it between two awards.
  const fewer = tier > 0 ? held.timesAwarded : held.timesAwarded - 1;
  return {
    tier: Math.min(tier, held.tier),
    times: Math.max(0, Math.min(repeatable ? times : fewer, held.timesAwarded)),
  };
};

/** A count of all events falls by a revert alone. */
export const neverFalls = (metric: CompiledMetric): boolean =>
  metric.aggregate === "count" && isForAllTime(metric);

export const isAlwaysAvailable = ({ fromMs, untilMs }: CompiledBadge): boolean =>
  fromMs === -Infinity && untilMs === Infinity;

/** A counter as the player's other events give it, and the most that it gives of badges, by key. */
export type Recounted = { state: CounterState | undefined; due: ReadonlyMap<string, Due> };

type RecountJob = {
  metric: CompiledMetric;
  fromId: string;
  followers: readonly Follower[];
  withEvent: CounterState | undefined;
  without: CounterState | undefined;
  due: Map<string, Due>;
};

type Recount = {
  metrics: readonly CompiledMetric[];
  starts: CounterStarts;
  /** The events that are left out. */
  eventIds: ReadonlySet<string>;
};

/** Counts a player's events again, one by one. */
export type Recounting = HistoryVisitor & {
  /** To be called after the last event. */
  result(): Map<string, Recounted>;
};

/**
 * Opens counting a player's events again, in the order of their arrival, without some of them. The result
 * omits counters for which the events do not give what is stored: those also count what Laurel sent itself,
 * or what was merged, or began under another time zone.
 */
export const openRecount = (owner: Owner, { metrics, starts, eventIds }: Recount): Recounting => {
  const countings = new Map<string, RecountJob>(
    metrics.map((metric) => [
      metric.id,
      {
        metric,
        fromId: idFloor(Math.max(0, starts.get(metric.id) ?? 0)),
        followers: followersOf(owner, metric),
        withEvent: undefined,
        without: undefined,
        due: new Map(),
      },
    ]),
  );
  return {
    visit: (event) => {
      for (const { id } of owner.project.metrics.forEvent(event.type)) {
        const counting = countings.get(id);
        if (counting && event.id >= counting.fromId) count(owner, counting, { event, eventIds });
      }
    },
    result: () => {
      const found = new Map<string, Recounted>();
      for (const [id, { metric, withEvent, without, due }] of countings)
        if (isSameCounter(withEvent, storedCounter(owner, metric))) found.set(id, { state: without, due });
      return found;
    },
  };
};

/** Counts all of a player's events again, as `openRecount`; nothing is known of a player with too many. */
export const recount = async (
  work: Work,
  owner: Owner,
  query: Omit<Recount, "eventIds">,
): Promise<Map<string, Recounted>> => {
  if (query.metrics.length === 0) return new Map();
  const counting = openRecount(owner, { ...query, eventIds: new Set() });
  const { id: playerId } = owner.player;
  const read = await visitHistories(work, owner.project.projectId, [{ playerId, ...counting }]);
  return read.has(playerId) ? counting.result() : new Map();
};

type Counted = { event: HistoryEvent; eventIds: ReadonlySet<string> };

const count = (owner: Owner, counting: RecountJob, { event, eventIds }: Counted): void => {
  const { metric, followers, due } = counting;
  const counted = sampleOfEvent(metric, owner, event);
  if (!counted) return;
  const { sample, moment } = counted;
  counting.withEvent = addToCounter(metric, counting.withEvent, sample, moment);
  if (eventIds.has(event.id)) return;
  counting.without = addToCounter(metric, counting.without, sample, moment);
  const progress = progressOf(metric, counting.without, moment);
  for (const { badge } of followers) {
    const { key } = badge.definition;
    if (event.at < badge.fromMs || event.at >= badge.untilMs) continue;
    const before = due.get(key) ?? { tier: 0, times: 0 };
    const now = dueAt(badge, progress);
    due.set(key, { tier: Math.max(before.tier, now.tier), times: Math.max(before.times, now.times) });
  }
};

/** A window that counts nothing is as good as none: reverts leave such. */
const meaning = (state: CounterState | undefined): string => {
  if (state === undefined || state === 0) return "";
  if (!Array.isArray(state)) return JSON.stringify(state);
  const windows = state.filter((one) => !Array.isArray(one) || !isNothing(one[1]));
  return isNothing(state) || windows.length === 0 ? "" : JSON.stringify(windows);
};

const isNothing = (state: unknown): boolean =>
  state === 0 || (Array.isArray(state) && state.length === 2 && state[0] === 0 && state[1] === 0);

/** Returns whether two states of a counter mean the same. */
export const isSameCounter = (a: CounterState | undefined, b: CounterState | undefined): boolean =>
  meaning(a) === meaning(b);
