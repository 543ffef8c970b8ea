/** Refreshes of one project's rooms that run at once in a process: each may hold a connection of the pool. */
const PROJECT_SLOTS = 2;
/** Milliseconds that each watcher, and each such room of the process, adds to the pause between two reads. */
const PAUSE_FOR = { watcher: 0.5, room: 2.5 } as const;

/** `rooms`: open rooms of the same kind in this process. */
type Load = { watchers: number; rooms: number };

/** Pause between two reads of a constantly changing list: it grows with the cost of its reads. */
export const refreshPauseMs = (pause: { min: number; max: number }, { watchers, rooms }: Load): number =>
  Math.min(pause.max, Math.max(pause.min, PAUSE_FOR.watcher * watchers + PAUSE_FOR.room * rooms));

/** A slot that is handed over stays active. */
type ProjectQueue = { active: number; waiting: (() => void)[] };

/**
 * Bounds the refreshes of a process by project, so that one with many rooms leaves the pool to others.
 * Further refreshes of the project wait in the order of their arrival.
 */
export class RefreshSlots {
  readonly #queues = new Map<string, ProjectQueue>();

  /** Resolves or rejects as `refresh` does, once it has had a slot. */
  async run<T>(projectId: string, refresh: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(projectId) ?? { active: 0, waiting: [] };
    this.#queues.set(projectId, queue);
    if (queue.active < PROJECT_SLOTS) queue.active++;
    else await new Promise<void>((resolve) => void queue.waiting.push(resolve));
    try {
      return await refresh();
    } finally {
      const next = queue.waiting.shift();
      if (next) next();
      else if (--queue.active === 0) this.#queues.delete(projectId);
    }
  }
}
