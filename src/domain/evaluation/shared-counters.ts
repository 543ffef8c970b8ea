/**
 * Counters that all players of a project share: firings of a rule with a global limit, what a budget has
 * given, stock of a reward, awards of a limited badge. Rows are locked for the transaction before evaluation,
 * so that what is counted in memory is exact however many batches race.
 */

/** `windowNo` is the number of a calendar window (kernel/zones.ts), or 0 for what never starts again. */
export type SharedKey = { projectId: string; scope: string; windowNo: number };

type SharedState = { used: number; times: readonly number[] | null };

/** What evaluation may ask and change of shared counters. Asking for one that was not locked is a bug. */
export type SharedCounters = {
  used(key: SharedKey): number;
  add(key: SharedKey, amount: number): void;
  /** Firing times in ms, ascending, of a rolling limit. */
  times(key: SharedKey): readonly number[];
  setTimes(key: SharedKey, times: readonly number[]): void;
  /** Whether the counter was locked for this transaction. */
  has(key: SharedKey): boolean;
  /** Puts everything back as it is now. */
  save(): () => void;
  /** The counters that changed, with their new values. */
  changes(): { p: string; s: string; w: number; u: number; t: readonly number[] | null }[];
};

export const counterIdOf = ({ projectId, scope, windowNo }: SharedKey): string =>
  `${projectId}\0${windowNo}\0${scope}`;

/** Counters for evaluation over states that were read. `isOpen`: unknown ones count from 0 (simulation). */
export const createSharedCounters = (
  loaded: ReadonlyMap<string, { key: SharedKey; state: SharedState }>,
  isOpen = false,
): SharedCounters => {
  const states = new Map(loaded);
  /** What was changed, and what it was before, so that going back takes no more than what is undone. */
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
    has: (key) => states.has(counterIdOf(key)),
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

/** For where nothing is shared. */
export const noSharedCounters = (): SharedCounters => createSharedCounters(new Map());
