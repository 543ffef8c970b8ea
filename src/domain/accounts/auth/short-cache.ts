/**
 * How long a process may use what it has read, in ms. A change of a key, session, role, project, tenant,
 * super-admin or block takes effect at once in the process that makes it, and everywhere within this time.
 * People who change something are looked up anew: what they make may last longer than their session.
 */
export const CACHE_TTL_MS = 5_000;
export const CACHE_MAX_ENTRIES = 10_000;

type Entry<T> = { value: Promise<T | undefined>; untilMs: number };

export type ShortCache<T> = {
  /** Returns the cached value of `key`, or else what `load` finds; concurrent requests share one load. */
  get(key: string, load: () => Promise<T | undefined>): Promise<T | undefined>;
  /** Loads the value of `key` anew, whatever is cached. */
  renew(key: string, load: () => Promise<T | undefined>): Promise<T | undefined>;
  delete(key: string): void;
  clear(): void;
};

/**
 * A bounded cache of values at most 5 s old, counted from the start of the load. `undefined` and failures are
 * not cached. `freshForMs` shortens the lifetime of one value. Keys are ids or hashes, unique across all
 * databases, so one cache serves the process.
 */
export const createShortCache = <T>(freshForMs: (value: T) => number = () => CACHE_TTL_MS): ShortCache<T> => {
  const entries = new Map<string, Entry<T>>();

  /** Determines how long the value is cached before anyone receives it. */
  const fill = async (key: string, entry: Omit<Entry<T>, "value">, load: () => Promise<T | undefined>) => {
    const startMs = performance.now();
    let value: T | undefined;
    try {
      value = await load();
      return value;
    } finally {
      if (value !== undefined) entry.untilMs = startMs + Math.min(CACHE_TTL_MS, freshForMs(value));
      else if (entries.get(key) === entry) entries.delete(key);
    }
  };

  const renew: ShortCache<T>["renew"] = (key, load) => {
    entries.delete(key);
    const entry = { untilMs: performance.now() + CACHE_TTL_MS } as Entry<T>;
    entries.set(key, entry);
    entry.value = fill(key, entry, load);
    const oldest = entries.keys().next();
    if (entries.size > CACHE_MAX_ENTRIES && !oldest.done) entries.delete(oldest.value);
    return entry.value;
  };

  return {
    get(key, load) {
      const hit = entries.get(key);
      return hit && hit.untilMs > performance.now() ? hit.value : renew(key, load);
    },
    renew,
    delete: (key) => void entries.delete(key),
    clear: () => entries.clear(),
  };
};
