import { dueTier } from "../evaluation/badges/award.ts";
import type { CompiledBadge } from "../evaluation/badges/badge.ts";
import type { CompiledMetric } from "../evaluation/metrics/compile.ts";
import { type PastEvent, sampleOfEvent } from "../evaluation/metrics/count.ts";
import {
  type CounterState,
  isReversible,
  type Moment,
  readCounter,
  subtractFromCounter,
} from "../evaluation/metrics/counters.ts";
import type { BadgeState, PlayerState } from "../evaluation/player-state.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import type { CounterStarts } from "./reverse-counters.ts";

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
export const storedCounter = (owner: Owner, { id }: CompiledMetric): CounterState | undefined =>
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
  if (isReversible(metric)) before.state = subtractFromCounter(metric, before.state, sample, moment);
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
export const progressOf = (metric: CompiledMetric, state: CounterState | undefined, moment: Moment): number =>
  Math.max(0, readCounter(metric, state, moment) ?? 0);

type Standing = Pick<Touched, "metric" | "state" | "moments">;

/** Returns the least progress of badges that follow a counter, at the times of the events. */
export const leastProgress = ({ metric, state, moments }: Standing): number =>
  Math.min(...moments.map((moment) => progressOf(metric, state, moment)));

/** What a counter gives of a badge. */
export type Due = { tier: number; times: number };

/** Returns what progress gives of a badge; a badge that is not repeatable is awarded once. */
export const dueAt = ({ definition }: CompiledBadge, progress: number): Due => {
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
