/**
 * Counters shared by all players of a project: firings of a rule with a global limit, consumption of a
 * budget, stock of a reward, awards of a limited badge. Rows are locked for the transaction before
 * evaluation, so that counting in memory is exact however many batches run concurrently.
 */

/** `windowNo` is the number of a calendar window (kernel/zones.ts), or 0 for a counter that never resets. */
export type SharedKey = { projectId: string; scope: string; windowNo: number };

type SharedState = { used: number; times: readonly number[] | null };

/** Shared counters as evaluation reads and changes them. Reading one that was not locked is a bug. */
export type SharedCounters = {
  used(key: SharedKey): number;
  add(key: SharedKey, amount: number): void;
  /** Firing times in ms, ascending, of a rolling limit. */
  times(key: SharedKey): readonly number[];
  setTimes(key: SharedKey, times: readonly number[]): void;
  /** Returns whether the counter was locked for this transaction, or may be counted without a lock. */
  has(key: SharedKey): boolean;
  /** Saves the current state and returns a function that restores it. */
  save(): () => void;
  /** Returns the counters that changed, with their new values. */
  changes(): { p: string; s: string; w: number; u: number; t: readonly number[] | null }[];
};

export const counterIdOf = ({ projectId, scope, windowNo }: SharedKey): string =>
  `${projectId}\0${windowNo}\0${scope}`;

/** Creates counters over loaded states. `isOpen`: unknown ones count from 0 (simulation). */
export const createSharedCounters = (
  loaded: ReadonlyMap<string, { key: SharedKey; state: SharedState }>,
  isOpen = false,
): SharedCounters => {
  const states = new Map(loaded);
  /** Log of changes with the previous states, so that a rollback costs only what it undoes. */
  const changed: { id: string; before: { key: SharedKey; state: SharedState } | undefined }[] = [];
  const find = (key: SharedKey) => {
    const found = states.get(counterIdOf(key));
    if (found) return found;
    if (!isOpen) throw new Error(`shared counter ${key.scope} was not locked`);
    return { key, state: { used: 0, times: null } };
  };
  const set = (key: SharedKey, state: SharedState): void => {
    const id = counterIdOf(key);
    changed.push({ id, before: states.get(id) });
    states.set(id, { key, state });
  };
  return {
    used: (key) => find(key).state.used,
    add: (key, amount) => {
      const { state } = find(key);
      set(key, { ...state, used: Math.max(0, state.used + amount) });
    },
    times: (key) => find(key).state.times ?? [],
    setTimes: (key, times) => set(key, { ...find(key).state, times }),
    has: (key) => isOpen || states.has(counterIdOf(key)),
    save: () => {
      const { length } = changed;
      return () => {
        for (const { id, before } of changed.splice(length).toReversed()) {
          if (before) states.set(id, before);
          else states.delete(id);
        }
      };
    },
    changes: () =>
      [...states]
        .filter(([id, { state }]) => loaded.get(id)?.state !== state)
        .map(([, { key, state }]) => ({
          p: key.projectId,
          s: key.scope,
          w: key.windowNo,
          u: state.used,
          t: state.times,
        })),
  };
};

/** For contexts without shared counters. */
export const noSharedCounters = (): SharedCounters => createSharedCounters(new Map());
