export type SizedCache<V> = {
  get(key: string): V | undefined;
  /** Keeps a value of so many bytes, in the place of those that were used longest ago. Answers it. */
  keep(key: string, value: V, bytes: number): V;
  drop(key: string): void;
};

/** A cache bounded by number and bytes; the newest value is kept whatever its size. */
export const createSizedCache = <V>(max: { items: number; bytes: number }): SizedCache<V> => {
  const kept = new Map<string, { value: V; bytes: number }>();
  let sum = 0;
  const drop = (key: string): void => {
    sum -= kept.get(key)?.bytes ?? 0;
    kept.delete(key);
  };
  return {
    get: (key) => {
      const found = kept.get(key);
      if (!found) return undefined;
      kept.delete(key);
      kept.set(key, found);
      return found.value;
    },
    keep: (key, value, bytes) => {
      drop(key);
      kept.set(key, { value, bytes });
      sum += bytes;
      while (kept.size > 1 && (kept.size > max.items || sum > max.bytes)) drop(kept.keys().next().value!);
      return value;
    },
    drop,
  };
};
