import type { CompiledMetric } from "../evaluation/metrics/compile.ts";
import { sampleOfEvent } from "../evaluation/metrics/count.ts";
import { addToCounter, type CounterState } from "../evaluation/metrics/counters.ts";
import { idFloor } from "../kernel/ids.ts";
import type { StepBudget } from "../kernel/step-budget.ts";
import type { Work } from "../kernel/work.ts";
import type { HistoryEvent } from "../rules/insight/history.ts";
import {
  type Due,
  dueAt,
  type Follower,
  followersOf,
  type Owner,
  progressOf,
  storedCounter,
} from "./counters-without.ts";
import { type HistoryVisitor, visitHistories } from "./read-history.ts";
import type { CounterStarts } from "./reverse-counters.ts";

/** A counter as the player's other events give it, and the most that it gives of badges, by key. */
export type Recounted = { state: CounterState | undefined; due: ReadonlyMap<string, Due> };

type Counting = {
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
  const countings = new Map<string, Counting>(
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
    visit: (event, steps) => {
      for (const { id } of owner.project.metrics.forEvent(event.type)) {
        const counting = countings.get(id);
        if (counting && event.id >= counting.fromId) count(owner, counting, { event, steps, eventIds });
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

type Counted = { event: HistoryEvent; steps: StepBudget; eventIds: ReadonlySet<string> };

const count = (owner: Owner, counting: Counting, { event, steps, eventIds }: Counted): void => {
  const { metric, followers, due } = counting;
  const counted = sampleOfEvent(metric, owner, event, steps);
  if (!counted) return;
  const { sample, moment } = counted;
  counting.withEvent = addToCounter(metric, counting.withEvent, sample, moment);
  if (eventIds.has(event.id)) return;
  counting.without = addToCounter(metric, counting.without, sample, moment);
  steps.spend(metric.steps * (1 + followers.length));
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
