import { dueTier } from "../evaluation/badges/award.ts";
import type { CompiledMetric } from "../evaluation/metrics/compile.ts";
import { sampleOfEvent } from "../evaluation/metrics/count.ts";
import { addToCounter, type CounterState } from "../evaluation/metrics/counters.ts";
import { idFloor } from "../kernel/ids.ts";
import type { StepBudget } from "../kernel/step-budget.ts";
import type { Work } from "../kernel/work.ts";
import type { HistoryEvent } from "../rules/insight/history.ts";
import { type Follower, followersOf, type Owner, progressOf, storedCounter } from "./counters-without.ts";
import { readHistory } from "./read-history.ts";
import type { CounterStarts } from "./reverse-counters.ts";

/** A counter as the player's other events give it, and the highest tiers that badges reach by it, by key. */
export type Recounted = { state: CounterState | undefined; tiers: ReadonlyMap<string, number> };

type Counting = {
  metric: CompiledMetric;
  fromId: string;
  followers: readonly Follower[];
  withEvent: CounterState | undefined;
  without: CounterState | undefined;
  tiers: Map<string, number>;
};

type Recount = {
  metrics: readonly CompiledMetric[];
  starts: CounterStarts;
  /** The event that is left out; null for none. */
  eventId: string | null;
};

/**
 * Counts a player's events again, in the order of their arrival, without one of them. Omits counters for
 * which the events do not give what is stored: those also count what Laurel sent itself, or what was merged,
 * or began under another time zone.
 */
export const recount = async (
  work: Work,
  owner: Owner,
  { metrics, starts, eventId }: Recount,
): Promise<Map<string, Recounted>> => {
  const countings = new Map<string, Counting>(
    metrics.map((metric) => [
      metric.id,
      {
        metric,
        fromId: idFloor(Math.max(0, starts.get(metric.id) ?? 0)),
        followers: followersOf(owner, metric),
        withEvent: undefined,
        without: undefined,
        tiers: new Map(),
      },
    ]),
  );
  if (countings.size === 0) return new Map();
  const whose = { projectId: owner.project.projectId, playerId: owner.player.id };
  const isAll = await readHistory(work, whose, (event, steps) => {
    for (const { id } of owner.project.metrics.forEvent(event.type)) {
      const counting = countings.get(id);
      if (counting && event.id >= counting.fromId) count(owner, counting, { event, steps, eventId });
    }
  });
  const found = new Map<string, Recounted>();
  if (!isAll) return found;
  for (const [id, { metric, withEvent, without, tiers }] of countings)
    if (isSame(withEvent, storedCounter(owner, metric))) found.set(id, { state: without, tiers });
  return found;
};

type Counted = { event: HistoryEvent; steps: StepBudget; eventId: string | null };

const count = (owner: Owner, counting: Counting, { event, steps, eventId }: Counted): void => {
  const { metric, followers, tiers } = counting;
  const counted = sampleOfEvent(metric, owner, event, steps);
  if (!counted) return;
  const { sample, moment } = counted;
  counting.withEvent = addToCounter(metric, counting.withEvent, sample, moment);
  if (event.id === eventId) return;
  counting.without = addToCounter(metric, counting.without, sample, moment);
  steps.spend(metric.steps * (1 + followers.length));
  const progress = progressOf(metric, counting.without, moment);
  for (const { badge } of followers) {
    const { key } = badge.definition;
    if (event.at < badge.fromMs || event.at >= badge.untilMs) continue;
    tiers.set(key, Math.max(tiers.get(key) ?? 0, dueTier(badge.definition, progress)));
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

const isSame = (a: CounterState | undefined, b: CounterState | undefined): boolean =>
  meaning(a) === meaning(b);
