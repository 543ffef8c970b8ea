import type { EntryChange } from "./events/events.ts";
import { fnv1a } from "./ids.ts";

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
