import { hash } from "node:crypto";

/**
 * Aggregates of numbers as small pieces of JSON that are replaced and never edited in place. `undefined` is
 * the state without values. Metrics, streaks, backfills, reverts and merges of players share these functions.
 *
 * | aggregate | state |
 * | --- | --- |
 * | count, sum, min, max | the number |
 * | avg | [sum, number of values] |
 * | latest | [time in ms, value] |
 * | distinct | hashes of the values, 11 characters each |
 */
export type AggregateState = number | string | readonly [number, number];

/** The contribution of one event: a number; for distinct the hash of a value (`distinctHash`). */
export type Sample = number | string;

export const AGGREGATES = ["count", "sum", "min", "max", "avg", "latest", "distinct"] as const;
export type Aggregate = (typeof AGGREGATES)[number];

/** Bound of sums: up to here six decimals are exact in a double. */
export const SUM_MAX = 9e9;
const DECIMALS = 1e6;
/** Maximum values that a distinct aggregate counts; beyond it stays constant. */
export const DISTINCT_MAX = 1_000;
/** 66 bits in base64url. */
export const HASH_LENGTH = 11;

/** Rounds a sum for storage: within ±9e9, to 6 decimals. */
export const toSum = (value: number): number =>
  Math.round(Math.max(-SUM_MAX, Math.min(SUM_MAX, value)) * DECIMALS) / DECIMALS;

/** Returns the hash of a value for distinct; undefined for anything but a string, number or boolean. */
export const distinctHash = (value: unknown): string | undefined =>
  typeof value === "string" || typeof value === "boolean" || Number.isFinite(value)
    ? hash("sha256", JSON.stringify(value), "base64url").slice(0, HASH_LENGTH)
    : undefined;

/** Returns whether a set of hashes contains one. */
export const holdsHash = (hashes: string, wanted: string): boolean => {
  for (let at = hashes.indexOf(wanted); at !== -1; at = hashes.indexOf(wanted, at + 1)) {
    if (at % HASH_LENGTH === 0) return true;
  }
  return false;
};

/** Splits a set into its hashes. */
export const hashesOf = (hashes: string): string[] => {
  const found: string[] = [];
  for (let at = 0; at < hashes.length; at += HASH_LENGTH) found.push(hashes.slice(at, at + HASH_LENGTH));
  return found;
};

const addHash = (hashes: string, value: string): string =>
  holdsHash(hashes, value) || hashes.length >= DISTINCT_MAX * HASH_LENGTH ? hashes : hashes + value;

type Pair = readonly [number, number];
type State = AggregateState | undefined;

/** One kind of aggregate; `S` is its state. */
type Kind<S extends AggregateState> = {
  /** `at` is the event's time in ms. */
  add(state: S | undefined, sample: never, at: number): S;
  merge(a: S, b: S): S;
  valueOf(state: S): number | undefined;
  /** Removes a sample; absent where the state does not determine the remainder. */
  subtract?(state: S, sample: number): S;
};

const KINDS = {
  count: {
    add: (state = 0) => state + 1,
    merge: (a, b) => a + b,
    valueOf: (state) => state,
    subtract: (state) => Math.max(0, state - 1),
  } satisfies Kind<number>,
  sum: {
    add: (state = 0, sample: number) => toSum(state + sample),
    merge: (a, b) => toSum(a + b),
    valueOf: (state) => state,
    subtract: (state, sample) => toSum(state - sample),
  } satisfies Kind<number>,
  min: {
    add: (state = Infinity, sample: number) => Math.min(state, sample),
    merge: Math.min,
    valueOf: (state) => state,
  } satisfies Kind<number>,
  max: {
    add: (state = -Infinity, sample: number) => Math.max(state, sample),
    merge: Math.max,
    valueOf: (state) => state,
  } satisfies Kind<number>,
  avg: {
    add: ([sum, n] = [0, 0], sample: number) => [toSum(sum + sample), n + 1],
    merge: (a, b) => [toSum(a[0] + b[0]), a[1] + b[1]],
    valueOf: ([sum, n]) => (n === 0 ? undefined : toSum(sum / n)),
    subtract: ([sum, n], sample) => (n > 1 ? [toSum(sum - sample), n - 1] : [0, 0]),
  } satisfies Kind<Pair>,
  latest: {
    // Of two at the same time the later arrival stands.
    add: (state, sample: number, at) => (state && state[0] > at ? state : [at, sample]),
    merge: (a, b) => (a[0] > b[0] ? a : b),
    valueOf: ([, value]) => value,
  } satisfies Kind<Pair>,
  distinct: {
    add: (state = "", sample: string) => addHash(state, sample),
    merge: (a, b) => hashesOf(b).reduce(addHash, a),
    valueOf: (state) => state.length / HASH_LENGTH,
  } satisfies Kind<string>,
} satisfies Record<Aggregate, unknown>;

const kindOf = (aggregate: Aggregate): Kind<AggregateState> => KINDS[aggregate];

/** Returns the state after one more sample, of an event at `at` ms. */
export const addSample = (aggregate: Aggregate, state: State, sample: Sample, at: number): AggregateState =>
  kindOf(aggregate).add(state, sample as never, at);

/** Returns the value without samples: undefined for min, max, avg and latest. */
export const emptyValue = (aggregate: Aggregate): number | undefined =>
  aggregate === "count" || aggregate === "sum" || aggregate === "distinct" ? 0 : undefined;

/** Returns the value of an aggregate; `emptyValue` without a state. */
export const aggregateValue = (aggregate: Aggregate, state: State): number | undefined =>
  state === undefined ? emptyValue(aggregate) : kindOf(aggregate).valueOf(state);

/** Merges the states of two sets of samples. */
export const mergeStates = (aggregate: Aggregate, a: State, b: State): State => {
  if (a === undefined) return b;
  return b === undefined ? a : kindOf(aggregate).merge(a, b);
};

/** Returns whether `subtractSample` is supported: count, sum and avg; the others must be recounted. */
export const isSubtractable = (aggregate: Aggregate): boolean => kindOf(aggregate).subtract !== undefined;

/** Removes a sample from a state that includes it. Check `isSubtractable` first. */
export const subtractSample = (aggregate: Aggregate, state: AggregateState, sample: Sample): AggregateState =>
  kindOf(aggregate).subtract!(state, Number(sample));

/** Returns whether a sum has reached its bound, so that it may be short of the true total. */
export const isClamped = (aggregate: Aggregate, state: State): boolean => {
  if (aggregate !== "sum" && aggregate !== "avg") return false;
  return Math.abs(Number(aggregate === "avg" ? (state as Pair)[0] : state)) >= SUM_MAX;
};
