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

/** A counter that has counted the event. */
export type Touched = {
  metric: CompiledMetric;
  /** As stored, with the event. */
  stored: CounterState;
  /** Without the event; as stored where a sample cannot be subtracted. */
  state: CounterState | undefined;
  /** Of the event. */
  moment: Moment;
};

/** Returns the player's counter as stored. */
export const storedCounter = ({ player }: Owner, { id }: CompiledMetric): CounterState | undefined =>
  player.doc.c?.[id] as CounterState | undefined;

/** Returns the counters that the events have changed, with what they are without those. */
export const countersWithout = (
  owner: Owner,
  events: readonly PastEvent[],
  { starts, receivedMs }: { starts: CounterStarts; receivedMs: number },
): Touched[] => {
  const touched = new Map<string, Touched>();
  for (const event of events) {
    for (const metric of owner.project.metrics.forEvent(event.type)) {
      const stored = storedCounter(owner, metric);
      const counted = sampleOfEvent(metric, owner, event);
      if (stored === undefined || !counted || receivedMs < (starts.get(metric.id) ?? -Infinity)) continue;
      const { sample, moment } = counted;
      const before = touched.get(metric.id)?.state ?? stored;
      const state = isReversible(metric) ? subtractFromCounter(metric, before, sample, moment) : before;
      touched.set(metric.id, { metric, stored, state, moment });
    }
  }
  return [...touched.values()];
};

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

/**
 * Returns the tier that a badge has by a counter as it is; undefined where that depends on what the counter
 * was before: it may have been higher.
 */
export const tierNow = (
  { metric, state, moment }: Pick<Touched, "metric" | "state" | "moment">,
  { badge, held }: Follower,
): number | undefined => {
  const due = dueTier(badge.definition, progressOf(metric, state, moment));
  if (due >= held.tier) return held.tier;
  return neverFalls(metric) && isAlwaysAvailable(badge) ? due : undefined;
};

/** A count of all events falls by a revert alone. */
export const neverFalls = ({ aggregate, window }: CompiledMetric): boolean =>
  aggregate === "count" && (window.type === "LIFETIME" || window.type === "SINCE");

export const isAlwaysAvailable = ({ fromMs, untilMs }: CompiledBadge): boolean =>
  fromMs === -Infinity && untilMs === Infinity;
