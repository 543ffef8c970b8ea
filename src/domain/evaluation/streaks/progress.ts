import type { AggregateState } from "../metrics/aggregates.ts";
import type { Heard } from "../rule-event.ts";
import type { CompiledStreak } from "./compile.ts";
import type { Progress } from "./state.ts";

/** Periods of which is kept how far they have come; of older ones an event counts if it is enough alone. */
const PERIODS_KEPT = 2;

type States = readonly (AggregateState | null)[];
type Entry = Progress["periods"][number];

/** What parts have come to, added to by an event; undefined when the event counts for none. */
const addTo = ({ parts, heard: hears }: CompiledStreak, states: States, heard: Heard): States | undefined => {
  let added: (AggregateState | null)[] | undefined;
  for (const part of hears(heard.event.type).parts) {
    // A part is as dear as a metric may be: what cannot be paid for does not count.
    if (heard.root.steps.isSpent) break;
    const old = states[part] ?? null;
    const next = parts[part]!.add(old, heard);
    if (next === null) continue;
    // A sum of what is there already may be the same number.
    added ??= [...states];
    added[part] = next;
  }
  return added;
};

/** Whether what parts have come to is enough. */
export const isEnough = ({ parts, definition }: CompiledStreak, states: States): boolean => {
  const isMet = (state: AggregateState | null, part: number): boolean =>
    state !== null && parts[part]!.valueOf(state) >= parts[part]!.threshold;
  return definition.qualify.mode === "ALL" ? states.every(isMet) : states.some(isMet);
};

const nothing = ({ parts }: CompiledStreak): States => parts.map(() => null);

/** What one event comes to by itself. */
export const alone = (streak: CompiledStreak, heard: Heard): boolean => {
  const states = addTo(streak, nothing(streak), heard);
  return states !== undefined && isEnough(streak, states);
};

const periodsOf = ({ signature }: CompiledStreak, progress: Progress | undefined): readonly Entry[] =>
  progress?.of === signature ? progress.periods : [];

/** What a period has come to. */
export const statesOf = (streak: CompiledStreak, progress: Progress | undefined, period: number): States =>
  periodsOf(streak, progress).find(([one]) => one === period)?.[1] ?? nothing(streak);

/**
 * Adds an event to what its period has come to.
 * @returns the progress to keep, and whether the period has enough; undefined when the event does not count
 */
export const gather = (
  streak: CompiledStreak,
  progress: Progress | undefined,
  { period, heard }: { period: number; heard: Heard },
): { progress: Progress; isEnough: boolean } | undefined => {
  const periods = periodsOf(streak, progress);
  const states = addTo(streak, statesOf(streak, progress, period), heard);
  if (!states) return undefined;
  const entries: Entry[] = [...periods.filter(([one]) => one !== period), [period, states]];
  entries.sort(([a], [b]) => a - b);
  const kept = { of: streak.signature, periods: entries.slice(-PERIODS_KEPT) };
  return { progress: kept, isEnough: isEnough(streak, states) };
};
