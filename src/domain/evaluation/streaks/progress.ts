import type { AggregateState } from "../metrics/aggregates.ts";
import type { EventContext } from "../rule-event.ts";
import type { CompiledStreak } from "./compile.ts";
import type { Progress } from "./state.ts";

/** Periods whose progress is kept; for older ones an event counts if it suffices alone. */
const PERIODS_KEPT = 2;

type States = readonly (AggregateState | null)[];
type Entry = Progress["periods"][number];

/** Adds an event to the progress of the parts; undefined when it counts for none. */
const addTo = (
  { parts, impactOf }: CompiledStreak,
  states: States,
  context: EventContext,
): States | undefined => {
  let added: (AggregateState | null)[] | undefined;
  for (const part of impactOf(context.event.type).parts) {
    // A part may cost as much as a metric: what exceeds the budget does not count.
    if (context.root.steps.isSpent) break;
    const old = states[part] ?? null;
    const next = parts[part]!.add(old, context);
    if (next === null) continue;
    // Adding to a sum may leave it unchanged.
    added ??= [...states];
    added[part] = next;
  }
  return added;
};

/** Returns whether the progress of the parts suffices. */
export const isEnough = ({ parts, definition }: CompiledStreak, states: States): boolean => {
  const isMet = (state: AggregateState | null, part: number): boolean =>
    state !== null && parts[part]!.valueOf(state) >= parts[part]!.threshold;
  return definition.qualify.mode === "ALL" ? states.every(isMet) : states.some(isMet);
};

const nothing = ({ parts }: CompiledStreak): States => parts.map(() => null);

/** Returns whether one event suffices by itself. */
export const sufficesAlone = (streak: CompiledStreak, context: EventContext): boolean => {
  const states = addTo(streak, nothing(streak), context);
  return states !== undefined && isEnough(streak, states);
};

const periodsOf = ({ signature }: CompiledStreak, progress: Progress | undefined): readonly Entry[] =>
  progress?.of === signature ? progress.periods : [];

/** Returns the progress of a period. */
export const statesOf = (streak: CompiledStreak, progress: Progress | undefined, period: number): States =>
  periodsOf(streak, progress).find(([one]) => one === period)?.[1] ?? nothing(streak);

/**
 * Adds an event to the progress of its period.
 * @returns the progress to store, and whether the period is complete; undefined when the event does not count
 */
export const gather = (
  streak: CompiledStreak,
  progress: Progress | undefined,
  { period, context }: { period: number; context: EventContext },
): { progress: Progress; isEnough: boolean } | undefined => {
  const periods = periodsOf(streak, progress);
  const states = addTo(streak, statesOf(streak, progress, period), context);
  if (!states) return undefined;
  const entries: Entry[] = [...periods.filter(([one]) => one !== period), [period, states]];
  entries.sort(([a], [b]) => a - b);
  const kept = { of: streak.signature, periods: entries.slice(-PERIODS_KEPT) };
  return { progress: kept, isEnough: isEnough(streak, states) };
};
