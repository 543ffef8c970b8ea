import type { CompiledMetric } from "../evaluation/metrics/compile.ts";
import { type PastEvent, sampleOfEvent } from "../evaluation/metrics/count.ts";
import { type CounterState, isReversible, subtractFromCounter } from "../evaluation/metrics/counters.ts";
import type { Turn } from "../evaluation/turn.ts";
import type { Pieces } from "../kernel/pace.ts";
import type { CausedEvent, Reversal } from "./record.ts";

/** When counters began, in ms, by id of the metric: earlier events are not counted in them. */
export type CounterStarts = ReadonlyMap<string, number>;

const CUSTOM = "custom.";

/** Returns the events derived from the event, as far as they were emitted. */
export const derivedOf = (emitted: readonly CausedEvent[], at: number): PastEvent[] =>
  emitted.flatMap(({ type, data }) => {
    if (!type.startsWith(CUSTOM)) return [{ type, at, properties: data }];
    const { eventType, properties } = data as { eventType: string; properties: PastEvent["properties"] };
    return [{ type: eventType, at, properties }];
  });

export type Counting = {
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
): Pieces<void> {
  for (const event of events) {
    for (const metric of turn.project.metrics.forEvent(event.type)) {
      yield metric.steps;
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
  if (!isReversible(metric)) {
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
