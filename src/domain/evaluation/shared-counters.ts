/**
 * Counters shared by all players of a project: firings of a rule with a global limit, consumption of a
 * budget, stock of a reward, awards of a limited badge. Rows are locked for the transaction before they
 * count, so that counting in memory is exact however many batches run concurrently.
 */

/** `windowNo` is the number of a calendar window (kernel/zones.ts), or 0 for a counter that never resets. */
export type SharedKey = { projectId: string; scope: string; windowNo: number };

type SharedState = { used: number; times: readonly number[] | null };

/**
 * What becomes of a counter that was not loaded: an error; counted from 0, in a simulation; or that too for
 * now, and it is `asked` for: what was evaluated is then undone, and done again with the counter.
 */
export type Unloaded = "REFUSED" | "FROM_ZERO" | "ASKED";

type Loaded = { key: SharedKey; state: SharedState };

export const counterIdOf = ({ projectId, scope, windowNo }: SharedKey): string =>
  `${projectId}\0${windowNo}\0${scope}`;

/** Opens shared counters, as evaluation reads and changes them. */
export const createSharedCounters = (unloaded: Unloaded, first: readonly Loaded[] = []) => {
  const loaded = new Map<string, Loaded>();
  const states = new Map<string, Loaded>();
  const asked = new Map<string, SharedKey>();
  /** Log of changes with the previous states, so that a rollback costs only what it undoes. */
  const changed: { id: string; before: Loaded | undefined }[] = [];
  /** Adds counters that have been loaded, and forgets what was asked for: whoever asked has been undone. */
  const load = (more: readonly Loaded[]): void => {
    for (const one of more) {
      const id = counterIdOf(one.key);
      loaded.set(id, one);
      states.set(id, one);
    }
    asked.clear();
  };
  load(first);
  const find = (key: SharedKey): Loaded => {
    const id = counterIdOf(key);
    const found = states.get(id);
    if (found) return found;
    if (unloaded === "REFUSED") throw new Error(`shared counter ${key.scope} was not locked`);
    if (unloaded === "ASKED") asked.set(id, key);
    return { key, state: { used: 0, times: null } };
  };
  const set = (key: SharedKey, state: SharedState): void => {
    const id = counterIdOf(key);
    changed.push({ id, before: states.get(id) });
    states.set(id, { key, state });
  };
  return {
    used: (key: SharedKey): number => find(key).state.used,
    add: (key: SharedKey, amount: number): void => {
      const { state } = find(key);
      set(key, { ...state, used: Math.max(0, state.used + amount) });
    },
    /** Firing times in ms, ascending, of a rolling limit. */
    times: (key: SharedKey): readonly number[] => find(key).state.times ?? [],
    setTimes: (key: SharedKey, times: readonly number[]): void => set(key, { ...find(key).state, times }),
    /** Returns whether the counter may be used. */
    has: (key: SharedKey): boolean => unloaded !== "REFUSED" || states.has(counterIdOf(key)),
    /** Returns the counters that were asked for and are not loaded. */
    asked: (): SharedKey[] => [...asked.values()],
    load,
    /** Saves the current state and returns a function that restores it. */
    save: (): (() => void) => {
      const { length } = changed;
      return () => {
        for (const { id, before } of changed.splice(length).toReversed()) {
          if (before) states.set(id, before);
          else states.delete(id);
        }
      };
    },
    /** Returns the counters that changed, with their new values. */
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

export type SharedCounters = ReturnType<typeof createSharedCounters>;
