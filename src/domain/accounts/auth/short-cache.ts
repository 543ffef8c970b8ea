import { sql } from "kysely";
import type { Transact } from "../../kernel/work.ts";

/** Precision of `lastUsedAt` of sessions, API keys and tokens. */
const LAST_USED_STEP_MS = 60_000;

/** Returns whether a use must be recorded; `lastUsedAt` is null for what was never used. */
export const isUseDue = (lastUsedAt: Date | null | undefined, now: Date): boolean =>
  lastUsedAt == null || now.getTime() - lastUsedAt.getTime() >= LAST_USED_STEP_MS;

/** Records a use. Not awaited: no request waits for it, and losing it costs a minute of precision. */
export const noteUse = (
  transact: Transact,
  table: "sessions" | "api_keys" | "platform_tokens",
  id: string,
): void => {
  transact(({ db, now }) => {
    const due = new Date(now.getTime() - LAST_USED_STEP_MS).toISOString();
    return sql`
      update ${sql.ref(table)} set last_used_at = ${now.toISOString()}::timestamptz
      where id = ${id}::uuid
        and (last_used_at is null or last_used_at <= ${due}::timestamptz)`.execute(db);
  }).catch(() => undefined);
};

/**
 * How long a process may use what it has read, in ms. A change of a key, session, role, project, tenant,
 * super-admin or block takes effect at once in the process that makes it, and everywhere within this time.
 * People who change something are looked up anew: what they make may last longer than their session.
 */
export const CACHE_TTL_MS = 5_000;
const CACHE_MAX_ENTRIES = 10_000;

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
