import { ClientGone } from "./flights.ts";
import type { OwnChanges } from "./own-changes.ts";
import { type CacheSize, createSizedCache, type SizedCache } from "./sized-cache.ts";

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
export type Of = { projectId: string; owner: string; key: string };

export type YoungCacheParts = {
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
