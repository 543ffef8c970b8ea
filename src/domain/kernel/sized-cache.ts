import { getHeapStatistics } from "node:v8";

/** Whose a value is, and how large. */
export type Size = { owner: string; bytes: number };

export type SizedCache<V> = {
  get(key: string): V | undefined;
  /** Keeps a value in the place of others, as `createSizedCache` says. Answers it. */
  keep(key: string, value: V, size: Size): V;
  /** Lets go of a value. Answers it. */
  drop(key: string): V | undefined;
};

/** Owners with more than this part of a cache give way before all others do. */
const OWNER_PART = 1 / 8;

/** Heap, in bytes, in which there is room for all caches of a process as large as they ask to be. */
const WHOLE_HEAP = 2 * 1024 * 1024 * 1024;

/** The part of its bytes that a cache has in a heap of so many. */
export const heapPartOf = (heapBytes: number): number => Math.min(1, heapBytes / WHOLE_HEAP);

const HEAP_PART = heapPartOf(getHeapStatistics().heap_size_limit);

type Kept<V> = { value: V; owner: string; cost: number };
/** `keys` in the order of their last use. */
type Owned = { cost: number; keys: Set<string> };

/** The largest of some owners, but for one who has nothing but the newest value. */
const mostOf = (owners: ReadonlySet<Owned>, newest: string): Owned | undefined => {
  let most: Owned | undefined;
  for (const owned of owners) {
    const isNewestOnly = owned.keys.size === 1 && owned.keys.has(newest);
    if (!isNewestOnly && owned.cost > (most?.cost ?? 0)) most = owned;
  }
  return most;
};

/**
 * A cache bounded by number and bytes. Where it is full, the owner gives way who has most of it, if that is
 * more than an eighth, else everybody: what was used longest ago. So one owner who fills it again and again
 * takes nothing from others who use what they have. The newest value is kept whatever its size.
 * @param heapPart in a small heap all caches have less of their bytes
 */
export const createSizedCache = <V>(
  { items, bytes: wholeBytes }: { items: number; bytes: number },
  heapPart = HEAP_PART,
): SizedCache<V> => {
  const bytesMax = wholeBytes * heapPart;
  const kept = new Map<string, Kept<V>>();
  const owners = new Map<string, Owned>();
  /** Owners of more than their part: fewer than eight, and the one who has just kept something. */
  const large = new Set<Owned>();
  /** Costs are bytes, and at least so many that the number is bounded with them. */
  const leastCost = Math.max(1, Math.floor(bytesMax / items));
  let sum = 0;

  const count = (owned: Owned, cost: number): void => {
    sum += cost;
    owned.cost += cost;
    if (owned.keys.size > 0 && owned.cost > bytesMax * OWNER_PART) large.add(owned);
    else large.delete(owned);
  };
  const drop = (key: string): V | undefined => {
    const found = kept.get(key);
    if (!found) return undefined;
    kept.delete(key);
    const owned = owners.get(found.owner)!;
    owned.keys.delete(key);
    count(owned, -found.cost);
    if (owned.keys.size === 0) owners.delete(found.owner);
    return found.value;
  };
  const add = (key: string, one: Kept<V>): void => {
    const owned = owners.get(one.owner) ?? { cost: 0, keys: new Set() };
    owners.set(one.owner, owned);
    kept.set(key, one);
    owned.keys.add(key);
    count(owned, one.cost);
  };
  const nextToGo = (newest: string): string =>
    (mostOf(large, newest)?.keys ?? kept.keys())[Symbol.iterator]().next().value!;

  return {
    get: (key) => {
      const found = kept.get(key);
      if (!found) return undefined;
      drop(key);
      add(key, found);
      return found.value;
    },
    keep: (key, value, { owner, bytes }) => {
      drop(key);
      add(key, { value, owner, cost: Math.max(bytes, leastCost) });
      while (kept.size > 1 && sum > bytesMax) drop(nextToGo(key));
      return value;
    },
    drop,
  };
};
