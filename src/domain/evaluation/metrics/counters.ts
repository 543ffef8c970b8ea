import {
  type Aggregate,
  type AggregateState,
  addSample,
  aggregateValue,
  DISTINCT_MAX,
  emptyValue,
  HASH_LENGTH,
  hashesOf,
  holdsHash,
  isSubtractable,
  mergeStates,
  type Sample,
  subtractSample,
} from "./aggregates.ts";
import { windowNumber, type CalendarUnit } from "../../kernel/zones.ts";

/** Calendar windows kept per counter: older events are not counted any more. */
export const WINDOWS_KEPT = 8;
/** Number of equal buckets of a rolling window: an event leaves it at most one bucket late. */
export const ROLLING_BUCKETS = 60;
/** Buckets that are read; the first of them is only partly within the window. */
const BUCKETS_READ = ROLLING_BUCKETS + 1;
/** Buckets kept: an event up to half a window late still reads the value of its time. */
export const BUCKETS_KEPT = BUCKETS_READ + ROLLING_BUCKETS / 2;
/**
 * Maximum values that all calendar windows of one distinct counter keep together; older windows are evicted.
 */
const DISTINCT_KEPT = 2 * DISTINCT_MAX;

/** How a counter divides time. */
export type CounterWindow =
  | { type: "LIFETIME" }
  | { type: "SINCE"; atMs: number }
  | { type: "CALENDAR"; unit: CalendarUnit }
  | { type: "ROLLING"; bucketMs: number };

/** A counter, as these functions see it. `zone` of a moment is an IANA name, used by CALENDAR only. */
export type Counter = { aggregate: Aggregate; window: CounterWindow };
export type Moment = { at: number; zone: string };

/**
 * A counter of one player as JSON: the aggregate's state, or with a CALENDAR or ROLLING window the states by
 * number of the window or bucket, ascending. null stands for a window whose value is unknown.
 */
export type CounterState = AggregateState | Windows;
type Windows = readonly Counted[];
type Counted = readonly [number: number, state: AggregateState | null];

const numberAt = (window: CounterWindow, { at, zone }: Moment): number | undefined => {
  if (window.type === "CALENDAR") return windowNumber(window.unit, zone, at);
  return window.type === "ROLLING" ? Math.floor(at / window.bucketMs) : undefined;
};

const keptOf = ({ type }: CounterWindow): number => (type === "CALENDAR" ? WINDOWS_KEPT : BUCKETS_KEPT);

const NO_WINDOWS: Windows = [];
const windowsOf = (state: CounterState | undefined): Windows => (state as Windows | undefined) ?? NO_WINDOWS;

const newestOf = (windows: Windows): number => windows.at(-1)?.[0] ?? -Infinity;

const isBefore = ({ window }: Counter, { at }: Moment): boolean =>
  window.type === "SINCE" && at < window.atMs;

/**
 * Counts a sample in the window of its own time. Returns `state` itself where that window is no longer kept
 * (late), or begins later.
 */
export const addToCounter = (
  counter: Counter,
  state: CounterState | undefined,
  sample: Sample,
  moment: Moment,
): CounterState | undefined => {
  const { aggregate, window } = counter;
  const number = numberAt(window, moment);
  if (number === undefined) {
    if (isBefore(counter, moment)) return state;
    return addSample(aggregate, state as AggregateState | undefined, sample, moment.at);
  }
  const windows = windowsOf(state);
  if (number <= newestOf(windows) - keptOf(window)) return state;
  const isRolling = window.type === "ROLLING";
  if (aggregate === "distinct" && isRolling) return addToBuckets(windows, String(sample), number);
  const old = stateIn(windows, number);
  if (old === null) return state;
  return keepNewest(counter, withWindow(windows, number, addSample(aggregate, old, sample, moment.at)));
};

/** Returns whether a sample at this moment is too late to be counted. */
export const isLate = ({ window }: Counter, state: CounterState | undefined, moment: Moment): boolean => {
  const number = numberAt(window, moment);
  if (number === undefined) return false;
  const windows = windowsOf(state);
  return number <= newestOf(windows) - keptOf(window) || stateIn(windows, number) === null;
};

/**
 * Returns the counter's value at a moment; undefined where it has none (min, max, avg and latest of nothing),
 * or where the window is no longer known.
 */
export const readCounter = (
  counter: Counter,
  state: CounterState | undefined,
  moment: Moment,
): number | undefined => {
  const { aggregate, window } = counter;
  const number = numberAt(window, moment);
  if (number === undefined) {
    if (isBefore(counter, moment)) return emptyValue(aggregate);
    return aggregateValue(aggregate, state as AggregateState | undefined);
  }
  const windows = windowsOf(state);
  if (window.type === "ROLLING") return readBuckets(aggregate, windows, number);
  if (number <= newestOf(windows) - WINDOWS_KEPT) return undefined;
  const found = stateIn(windows, number);
  return found === null ? undefined : aggregateValue(aggregate, found);
};

const readBuckets = (aggregate: Aggregate, windows: Windows, number: number): number | undefined => {
  // Some of the window's values may have been evicted.
  if (number - ROLLING_BUCKETS <= newestOf(windows) - BUCKETS_KEPT) return undefined;
  const within = windows.filter(([bucket]) => bucket <= number && bucket >= number - ROLLING_BUCKETS);
  if (aggregate === "distinct") {
    return within.reduce((sum, [, state]) => sum + String(state).length / HASH_LENGTH, 0);
  }
  const state = within.reduce<AggregateState | undefined>(
    (sum, [, next]) => mergeStates(aggregate, sum, next ?? undefined),
    undefined,
  );
  return aggregateValue(aggregate, state);
};

const stateIn = (windows: Windows, number: number): AggregateState | null | undefined => {
  for (let i = windows.length - 1; i >= 0 && windows[i]![0] >= number; i--) {
    if (windows[i]![0] === number) return windows[i]![1];
  }
  return undefined;
};

/** `undefined` removes a window. */
const withWindow = (windows: Windows, number: number, state: AggregateState | undefined): Windows => {
  let at = windows.length;
  while (at > 0 && windows[at - 1]![0] >= number) at--;
  const isThere = windows[at]?.[0] === number;
  return windows.toSpliced(at, isThere ? 1 : 0, ...(state === undefined ? [] : [[number, state] as const]));
};

const keepNewest = ({ aggregate, window }: Counter, windows: Windows): Windows => {
  const oldest = newestOf(windows) - keptOf(window) + 1;
  const kept = windows[0]![0] < oldest ? windows.filter(([number]) => number >= oldest) : windows;
  return aggregate === "distinct" ? keepHashes(kept) : kept;
};

/** Keeps the newest windows whose values fit; an older one is marked as no longer known. */
const keepHashes = (windows: Windows): Windows => {
  let room = DISTINCT_KEPT * HASH_LENGTH;
  return windows
    .toReversed()
    .map(([number, state]): Counted => {
      room -= state === null ? 0 : String(state).length;
      return [number, room < 0 ? null : state];
    })
    .toReversed();
};

/**
 * Adds to the distinct values of a rolling window: each is kept in its latest bucket, and the ones seen
 * longest ago are evicted beyond DISTINCT_MAX.
 */
const addToBuckets = (windows: Windows, value: string, number: number): Windows => {
  const seen = windows.find(([, state]) => holdsHash(String(state), value));
  if (seen && seen[0] >= number) return windows;
  const without = seen ? withWindow(windows, seen[0], withoutHash(String(seen[1]), value)) : windows;
  const inBucket = stateIn(without, number) ?? "";
  const oldest = Math.max(newestOf(windows), number) - BUCKETS_KEPT + 1;
  const kept = withWindow(without, number, `${String(inBucket)}${value}`).filter(([n]) => n >= oldest);
  return trimHashes(kept);
};

const withoutHash = (hashes: string, value: string): string | undefined => {
  const left = hashesOf(hashes).filter((one) => one !== value);
  return left.length === 0 ? undefined : left.join("");
};

const trimHashes = (windows: Windows): Windows => {
  let over = windows.reduce((sum, [, state]) => sum + String(state).length, 0) - DISTINCT_MAX * HASH_LENGTH;
  if (over <= 0) return windows;
  return windows.flatMap(([number, state]): Counted[] => {
    const left = String(state).slice(Math.max(0, over));
    over -= String(state).length - left.length;
    return left === "" ? [] : [[number, left]];
  });
};

/** Returns whether `subtractFromCounter` is supported; otherwise the counter must be recounted. */
export const isReversible = ({ aggregate }: Counter): boolean => isSubtractable(aggregate);

/**
 * Removes a sample from the window of its time; a window that is no longer kept is unchanged. Check
 * `isReversible` first.
 */
export const subtractFromCounter = (
  counter: Counter,
  state: CounterState | undefined,
  sample: Sample,
  moment: Moment,
): CounterState | undefined => {
  const { aggregate, window } = counter;
  if (state === undefined || isBefore(counter, moment)) return state;
  const number = numberAt(window, moment);
  if (number === undefined) return subtractSample(aggregate, state as AggregateState, sample);
  const windows = windowsOf(state);
  const old = stateIn(windows, number);
  if (old === undefined || old === null) return state;
  return withWindow(windows, number, subtractSample(aggregate, old, sample));
};

/** Merges the counters of two players: values are added, joined or compared, by the aggregate. */
export const mergeCounters = (
  counter: Counter,
  a: CounterState | undefined,
  b: CounterState | undefined,
): CounterState | undefined => {
  if (a === undefined || b === undefined) return a ?? b;
  const { aggregate, window } = counter;
  if (window.type !== "CALENDAR" && window.type !== "ROLLING")
    return mergeStates(aggregate, a as AggregateState, b as AggregateState);
  if (aggregate === "distinct" && window.type === "ROLLING") {
    const samples = windowsOf(b).flatMap(([n, state]) => hashesOf(String(state)).map((h) => [n, h] as const));
    return samples.reduce((into, [number, value]) => addToBuckets(into, value, number), windowsOf(a));
  }
  const merged = windowsOf(b).reduce((into, [number, state]) => {
    const old = stateIn(into, number);
    if (old === null || state === null) return markUnknown(into, number);
    return withWindow(into, number, mergeStates(aggregate, old, state));
  }, windowsOf(a));
  return keepNewest(counter, merged);
};

const markUnknown = (windows: Windows, number: number): Windows =>
  [...windows.filter(([n]) => n !== number), [number, null] as const].toSorted(([a], [b]) => a - b);
