/** The commits of a project in a partition of the outbox. */
export type Backlog = { part: number; projectId: string };

/** Maximum number of backlogs known to a process; further ones stay in the shared rounds. */
export const BACKLOGS_MAX = 100;
/** Number of commits from which a project is a backlog, although a round has taken all that it has read. */
export const BACKLOG_LEAST = 10;
/** Bytes that a project has in a shared round of one partition, at most. */
export const SHARE_BYTES = 64 * 1024;
/** The longest rest from a backlog that another process relays, in ms. */
const REST_MAX_MS = 5_000;

const keyOf = ({ part, projectId }: Backlog): string => `${part}:${projectId}`;

/**
 * The backlogs that a process relays apart from its shared rounds: more waits there than a shared round takes
 * of a project. Shared rounds leave them out, so they contain only little of each project. The state only
 * decides in which round something is relayed, and may be lost.
 */
export class Backlogs {
  readonly #restMs = new Map<string, number>();
  readonly #known = new Map<string, Backlog>();

  /** All backlogs, of any partition. */
  get all(): readonly Backlog[] {
    return [...this.#known.values()];
  }

  has(backlog: Backlog): boolean {
    return this.#known.has(keyOf(backlog));
  }

  /** @returns whether it is relayed apart from now on */
  add(backlog: Backlog): boolean {
    if (this.#known.size >= BACKLOGS_MAX) return false;
    this.#known.set(keyOf(backlog), backlog);
    return true;
  }

  /** Returns a backlog to the shared rounds. */
  end(backlog: Backlog): void {
    this.#known.delete(keyOf(backlog));
    this.#restMs.delete(keyOf(backlog));
  }

  /**
   * Returns how long to rest before the next round, in ms, after one that took `tookMs`. If another process
   * has relayed most of the same commits, the rounds of both are the same work done twice: whoever was later
   * rests, each time for longer.
   */
  restAfter(backlog: Backlog, { tookMs, wasOurs }: { tookMs: number; wasOurs: boolean }): number {
    const key = keyOf(backlog);
    if (wasOurs) this.#restMs.delete(key);
    else this.#restMs.set(key, Math.min(REST_MAX_MS, Math.max(tookMs, 2 * (this.#restMs.get(key) ?? 0))));
    return this.#restMs.get(key) ?? 0;
  }
}
