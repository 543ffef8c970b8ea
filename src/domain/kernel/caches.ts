import { getHeapStatistics } from "node:v8";
import type { EntryChange } from "./events/events.ts";
import { fnv1a } from "./ids.ts";
import { createHash } from "node:crypto";
import { ClientGone } from "./flights.ts";

/** Counters; projects that share one only make each other read more often. */
const SLOTS = 4_096;
/** Maximum entries kept for the rank index; beyond that the relay alone brings them there. */
const ENTRIES_MAX = 10_000;

type Changed = { projectId: string; periodId: string; entries: readonly EntryChange[] };

const keyOf = (projectId: string, periodId: string): string => `${projectId}:${periodId}`;

/**
 * What this process has changed, so that it never answers from memory what is older than its own commits.
 * Changes by other processes are not in here: for them the age of an answer is bounded.
 */
export class OwnChanges {
  readonly #counts = new Uint32Array(SLOTS);
  /** Entries that requests of this process have committed and nobody is known to have put into the index. */
  readonly #entries = new Map<string, Map<string, EntryChange>>();
  #size = 0;

  /** Number of entries that wait to be put into the rank index. */
  get waiting(): number {
    return this.#size;
  }

  /** Marks everything read of a project so far as old. */
  note(projectId: string): void {
    const slot = fnv1a(projectId) % SLOTS;
    this.#counts[slot] = this.#counts[slot]! + 1;
  }

  /** Returns a number that is another one after each change of the project. */
  countOf(projectId: string): number {
    return this.#counts[fnv1a(projectId) % SLOTS]!;
  }

  /** Keeps committed entries until they are taken, or known to be in the index. */
  keepEntries({ projectId, periodId, entries }: Changed): void {
    const key = keyOf(projectId, periodId);
    const kept = this.#entries.get(key) ?? new Map<string, EntryChange>();
    this.#entries.set(key, kept);
    const before = kept.size;
    for (const entry of entries) {
      const [playerId, , , version] = entry;
      if ((kept.get(playerId)?.[3] ?? -1) < version) kept.set(playerId, entry);
    }
    this.#size += kept.size - before;
    for (const oldest of this.#entries.keys()) {
      if (this.#size <= ENTRIES_MAX) break;
      this.#take(oldest);
    }
  }

  /** Removes and returns the kept entries of a list. */
  takeEntries(projectId: string, periodId: string): EntryChange[] {
    return this.#size === 0 ? [] : this.#take(keyOf(projectId, periodId));
  }

  #take(key: string): EntryChange[] {
    const kept = this.#entries.get(key);
    if (!kept) return [];
    this.#entries.delete(key);
    this.#size -= kept.size;
    return [...kept.values()];
  }

  /** Forgets kept entries that are in the index, and marks what was read of the project as old. */
  areInIndex({ projectId, periodId, entries }: Changed): void {
    this.note(projectId);
    const kept = this.#entries.get(keyOf(projectId, periodId));
    if (!kept) return;
    for (const [playerId, , , version] of entries) {
      if ((kept.get(playerId)?.[3] ?? Infinity) > version) continue;
      kept.delete(playerId);
      this.#size--;
    }
    if (kept.size === 0) this.#entries.delete(keyOf(projectId, periodId));
  }
}

/**
 * Returns a weak validator of a body's bytes: it is the same for the plain and the compressed form.
 */
export const etagOf = (bytes: Buffer): string =>
  `W/"${createHash("sha256").update(bytes).digest("base64url").slice(0, 22)}"`;

/** An answer as bytes, to be sent many times. `packed`: compressed, once somebody has asked for that. */
export class ReadyJson {
  readonly plain: Buffer;
  readonly etag: string;
  packed: Promise<Buffer> | undefined;

  /**
   * @param value what is sent, or the bytes of its JSON
   * @param etag for a body whose other fields do not count, such as when it was made
   */
  constructor(value: unknown, etag?: string) {
    this.plain = Buffer.isBuffer(value) ? value : Buffer.from(JSON.stringify(value));
    this.etag = etag ?? etagOf(this.plain);
  }

  /** Bytes that it takes in memory, about: compressed, JSON of this kind has a quarter. */
  get bytes(): number {
    return Math.ceil(1.25 * this.plain.length);
  }
}

/** Owner and size of a value; `bytes` is left out where the cache counts values alone. */
type Size = { owner: string; bytes?: number };

export type SizedCache<V> = {
  get(key: string): V | undefined;
  /** Caches a value, evicting others as `createSizedCache` says. Returns it. */
  keep(key: string, value: V, size: Size): V;
  /** Removes a value. Returns it. */
  drop(key: string): V | undefined;
  /** Number of values, and their bytes where the cache counts those: what operators are shown. */
  readonly size: CacheSize;
};

export type CacheSize = { items: number; bytes: number };

/** Owners with more than this share of a cache are evicted from first. */
const OWNER_PART = 1 / 8;

/** Heap, in bytes, in which all caches of a process fit at their full size. */
const WHOLE_HEAP = 2 * 1024 * 1024 * 1024;

/** Returns the fraction of its size that a cache has in a heap of so many bytes. */
export const heapPartOf = (heapBytes: number): number => Math.min(1, heapBytes / WHOLE_HEAP);

const HEAP_PART = heapPartOf(getHeapStatistics().heap_size_limit);

type Kept<V> = { value: V; owner: string; cost: number };
/** `keys` in the order of their last use. */
type Owned = { cost: number; keys: Set<string> };

/** Returns the largest of some owners, except one that has only the newest value. */
const mostOf = (owners: ReadonlySet<Owned>, newest: string): Owned | undefined => {
  let most: Owned | undefined;
  for (const owned of owners) {
    const isNewestOnly = owned.keys.size === 1 && owned.keys.has(newest);
    if (!isNewestOnly && owned.cost > (most?.cost ?? 0)) most = owned;
  }
  return most;
};

/**
 * Creates a cache bounded by number and, where `bytes` is given, by bytes too. When it is full, the least
 * recently used value is evicted: of the largest owner, if that has more than an eighth, else of all. So an
 * owner that fills it over and over does not evict the values that others use. The newest value is kept
 * whatever its size.
 * @param heapPart fraction of the bytes that caches have in a small heap
 */
export const createSizedCache = <V>(
  { items, bytes: wholeBytes }: { items: number; bytes?: number },
  heapPart = HEAP_PART,
): SizedCache<V> => {
  const costMax = wholeBytes === undefined ? items : wholeBytes * heapPart;
  const kept = new Map<string, Kept<V>>();
  const owners = new Map<string, Owned>();
  /** Owners with more than their share: fewer than eight, and the one that has just added a value. */
  const large = new Set<Owned>();
  /** Costs are bytes, at least this many, which bounds the number of values as well; without bytes 1. */
  const leastCost = Math.max(1, Math.floor(costMax / items));
  let sum = 0;

  const count = (owned: Owned, cost: number): void => {
    sum += cost;
    owned.cost += cost;
    if (owned.keys.size > 0 && owned.cost > costMax * OWNER_PART) large.add(owned);
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
    keep: (key, value, { owner, bytes = 0 }) => {
      drop(key);
      add(key, { value, owner, cost: Math.max(bytes, leastCost) });
      while (kept.size > 1 && sum > costMax) drop(nextToGo(key));
      return value;
    },
    drop,
    get size() {
      return { items: kept.size, bytes: wholeBytes === undefined ? 0 : sum };
    },
  };
};

/**
 * How old an answer from memory may be, in ms. It contains every change that was committed longer ago, by
 * whichever process, and every change by this process: the promise rests on the clock, not on messages, which
 * can be lost.
 */
export const ANSWER_AGE_MS = 1_000;

type Made<T> = { value: T; bytes: number };
/** `sinceMs`: when reading it began; `count`: the project's changes by this process until then. */
type Entry<T> = { value: T; sinceMs: number; count: number };
type Making<T> = { sinceMs: number; count: number; made: Promise<T> };

/** A value, and for how long it may have been another one, in ms. */
export type Aged<T> = { value: T; ageMs: number };

/** Whose value it is: the project's, counted for its owner. */
type Of = { projectId: string; owner: string; key: string };

type YoungCacheParts = {
  bytes: number;
  items: number;
  changes: OwnChanges;
  onLookUp?: (isHit: boolean) => void;
};

/**
 * A cache of what was read of projects, bounded in bytes: values that are at most ANSWER_AGE_MS old, and not
 * older than this process's own changes of the project. Callers who ask at the same time share one reading.
 */
export class YoungCache<T> {
  readonly #kept: SizedCache<Entry<T>>;
  readonly #making = new Map<string, Making<T>>();
  readonly #changes: OwnChanges;
  readonly #onLookUp: (isHit: boolean) => void;

  constructor({ bytes, items, changes, onLookUp = () => undefined }: YoungCacheParts) {
    this.#kept = createSizedCache<Entry<T>>({ items, bytes });
    this.#changes = changes;
    this.#onLookUp = onLookUp;
  }

  /** Returns the value of a key, or what `make` reads; `isFresh`: what it reads from now on. */
  async get(
    { projectId, owner, key }: Of,
    { isFresh, make }: { isFresh: boolean; make: () => Promise<Made<T>> },
  ): Promise<Aged<T>> {
    for (;;) {
      const [nowMs, count] = [performance.now(), this.#changes.countOf(projectId)];
      const isYoung = (one: { sinceMs: number; count: number } | undefined): boolean =>
        one !== undefined && one.count === count && nowMs - one.sinceMs < ANSWER_AGE_MS;
      const found = isFresh ? undefined : this.#kept.get(key);
      const isHit = isYoung(found);
      this.#onLookUp(isHit);
      if (isHit) return { value: found!.value, ageMs: nowMs - found!.sinceMs };
      const others = isFresh ? undefined : this.#making.get(key);
      const joined = isYoung(others) ? others : undefined;
      const making = joined ?? this.#begin(key, { nowMs, count, owner, make });
      try {
        return { value: await making.made, ageMs: performance.now() - making.sinceMs };
      } catch (error) {
        // As in `joinFlight`: what another's client has ended is not this caller's error.
        if (!joined || !(error instanceof ClientGone)) throw error;
      }
    }
  }

  get size(): CacheSize {
    return this.#kept.size;
  }

  #begin(
    key: string,
    {
      nowMs,
      count,
      owner,
      make,
    }: { nowMs: number; count: number; owner: string; make: () => Promise<Made<T>> },
  ): Making<T> {
    const read = async (): Promise<T> => {
      try {
        const { value, bytes } = await make();
        this.#kept.keep(key, { value, sinceMs: nowMs, count }, { owner, bytes });
        return value;
      } finally {
        if (this.#making.get(key) === making) this.#making.delete(key);
      }
    };
    const making: Making<T> = { sinceMs: nowMs, count, made: undefined as never };
    this.#making.set(key, making);
    making.made = read();
    return making;
  }
}
