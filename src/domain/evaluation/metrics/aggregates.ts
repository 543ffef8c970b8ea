import { hash } from "node:crypto";

/**
 * Aggregates of numbers as small pieces of JSON that are replaced and never edited in place. `undefined`
 * is the state of no values at all. Metrics, streaks, backfills, reverts and merges of players share these
 * functions.
 *
 * | aggregate | state |
 * | --- | --- |
 * | count, sum, min, max | the number |
 * | avg | [sum, number of values] |
 * | latest | [time in ms, value] |
 * | distinct | hashes of the values, 11 characters each |
 */
export type AggregateState = number | string | readonly [number, number];

/** What an aggregate takes of one event: a number; for distinct the hash of a value (`distinctHash`). */
export type Sample = number | string;

export const AGGREGATES = ["count", "sum", "min", "max", "avg", "latest", "distinct"] as const;
export type Aggregate = (typeof AGGREGATES)[number];

/** Bound of sums: up to here six decimals are exact in a double. */
export const SUM_MAX = 9e9;
const DECIMALS = 1e6;
/** Values that a distinct aggregate tells apart; beyond it stands still. */
export const DISTINCT_MAX = 1_000;
/** 66 bits in base64url. */
export const HASH_LENGTH = 11;

/** A sum as it is kept: within ±9e9, rounded to 6 decimals. */
export const toSum = (value: number): number =>
  Math.round(Math.max(-SUM_MAX, Math.min(SUM_MAX, value)) * DECIMALS) / DECIMALS;

/** The hash by which distinct knows a value; undefined for what is no string, number or boolean. */
export const distinctHash = (value: unknown): string | undefined =>
  typeof value === "string" || typeof value === "boolean" || Number.isFinite(value)
    ? hash("sha256", JSON.stringify(value), "base64url").slice(0, HASH_LENGTH)
    : undefined;

/** Whether a set of hashes holds one. */
export const holdsHash = (hashes: string, wanted: string): boolean => {
  for (let at = hashes.indexOf(wanted); at !== -1; at = hashes.indexOf(wanted, at + 1)) {
    if (at % HASH_LENGTH === 0) return true;
  }
  return false;
};

/** The hashes of a set. */
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
  /** Takes a sample back out; absent where the state does not tell what would be left. */
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
    // Of two at the same time the one that came later stands.
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

/** The state after one more sample, of an event at `at` ms. */
export const addSample = (aggregate: Aggregate, state: State, sample: Sample, at: number): AggregateState =>
  kindOf(aggregate).add(state, sample as never, at);

/** The value of no samples: nothing for min, max, avg and latest. */
export const emptyValue = (aggregate: Aggregate): number | undefined =>
  aggregate === "count" || aggregate === "sum" || aggregate === "distinct" ? 0 : undefined;

/** What an aggregate says; `emptyValue` for no state. */
export const aggregateValue = (aggregate: Aggregate, state: State): number | undefined =>
  state === undefined ? emptyValue(aggregate) : kindOf(aggregate).valueOf(state);

/** The state of all samples of both. */
export const mergeStates = (aggregate: Aggregate, a: State, b: State): State => {
  if (a === undefined) return b;
  return b === undefined ? a : kindOf(aggregate).merge(a, b);
};

/** Whether `subtractSample` can do it: count, sum and avg; the others have to be counted again. */
export const isSubtractable = (aggregate: Aggregate): boolean => kindOf(aggregate).subtract !== undefined;

/** The state without a sample that is in it. Ask `isSubtractable` first. */
export const subtractSample = (aggregate: Aggregate, state: AggregateState, sample: Sample): AggregateState =>
  kindOf(aggregate).subtract!(state, Number(sample));

/** Whether a sum has met its bound, so that it may be short of what was added. */
export const isClamped = (aggregate: Aggregate, state: State): boolean => {
  if (aggregate !== "sum" && aggregate !== "avg") return false;
  return Math.abs(Number(aggregate === "avg" ? (state as Pair)[0] : state)) >= SUM_MAX;
};
