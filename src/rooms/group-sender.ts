import { setTimeout as delay } from "node:timers/promises";
import { DomainError } from "../domain/kernel/errors.ts";

/** Maximum number of sends that wait in one room, and maximum number of sends per commit. */
export const WAITING_MAX = 1_000;
export const GROUP_MAX = 200;
/** Minimum milliseconds between the starts of two commits; readers are not notified more often either. */
export const COMMIT_EVERY_MS = 15;

type Waiting<I, O> = { item: I; resolve(outcome: O): void; reject(error: unknown): void };

/**
 * Commits in groups: items that arrive during a commit, or soon after the last one, share the next one, in
 * order of arrival. So a channel's sends cost one transaction per round trip to the database instead of one
 * each.
 */
export class GroupSender<I, O> {
  readonly #commit: (items: readonly I[]) => Promise<readonly O[]>;
  readonly #prepare: (item: I) => I;
  #waiting: Waiting<I, O>[] = [];
  #isRunning = false;
  #beganAtMs = -Infinity;

  /**
   * @param commit returns outcomes in the order of the items; an exception is the outcome of all
   * @param prepare called with an item that arrives while another group is being committed, and returns the
   *   item to commit in its place; must not throw
   */
  constructor(
    commit: (items: readonly I[]) => Promise<readonly O[]>,
    prepare: (item: I) => I = (item) => item,
  ) {
    this.#commit = commit;
    this.#prepare = prepare;
  }

  /** @throws DomainError SERVICE_UNAVAILABLE when too many wait, and what the commit throws */
  send(item: I): Promise<O> {
    if (this.#waiting.length >= WAITING_MAX) {
      throw new DomainError("SERVICE_UNAVAILABLE", "too many messages at once, try again", {
        retryAfterSeconds: 1,
      });
    }
    return new Promise<O>((resolve, reject) => {
      this.#waiting.push({ item: this.#isRunning ? this.#prepare(item) : item, resolve, reject });
      if (!this.#isRunning) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    // Frames that arrived in the same iteration of the event loop join the first group.
    await new Promise(setImmediate);
    while (this.#waiting.length > 0) {
      const pauseMs = this.#beganAtMs + COMMIT_EVERY_MS - performance.now();
      if (pauseMs > 0 && this.#waiting.length < GROUP_MAX) await delay(pauseMs);
      this.#beganAtMs = performance.now();
      await this.#next(this.#waiting.splice(0, GROUP_MAX));
    }
    this.#isRunning = false;
  }

  async #next(group: readonly Waiting<I, O>[]): Promise<void> {
    try {
      const outcomes = await this.#commit(group.map(({ item }) => item));
      for (const [i, { resolve }] of group.entries()) resolve(outcomes[i]!);
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }
}
