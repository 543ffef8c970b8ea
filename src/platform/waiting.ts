import type { Timeouts } from "../domain/kernel/timeouts.ts";

/** How often open waits are checked, in ms. */
export const CHECK_EVERY_MS = 250;
/** Grace for the answer to arrive after PostgreSQL should have ended the statement, in ms. */
const ANSWER_GRACE_MS = 1_000;

/** A client of pg, whose socket can be terminated at any time. */
export type Socketed = {
  /** The backend's process id, as reported by PostgreSQL. */
  processID?: number | null;
  connection: { stream: { destroy(error?: Error): unknown } };
};

const noAnswer = (ms: number): Error =>
  Object.assign(new Error(`PostgreSQL has not answered within ${ms} ms`), { code: "ETIMEDOUT" });

/**
 * Tracks the answers that a connection waits for. Time is counted in checks, not by the clock: a process that
 * was paused, or whose thread was busy, has not read answers that may have arrived long ago.
 */
export class Waiting {
  readonly #client: Socketed;
  #owed = 0;
  #waitedMs = 0;
  #timeouts: Timeouts | undefined;
  #suspectedForMs: number | undefined;
  #looksAtRest = 0;

  constructor(client: Socketed) {
    this.#client = client;
  }

  /** Records a sent statement; the newest one's timeouts apply. */
  expect(answer: Promise<unknown>, timeouts: Timeouts): void {
    if (this.#owed++ === 0) this.#waitedMs = 0;
    this.#timeouts = timeouts;
    const answered = (): void => {
      this.#owed--;
      this.#waitedMs = 0;
      this.#suspectedForMs = undefined;
      this.#looksAtRest = 0;
    };
    answer.then(answered, answered);
  }

  /** The timeouts of the awaited answer; undefined when none is due. */
  get owedTo(): Timeouts | undefined {
    return this.#owed > 0 ? this.#timeouts : undefined;
  }

  get waitedMs(): number {
    return this.#waitedMs;
  }

  /** Marks the connection as possibly dead: its next statement must be answered within `ms`. */
  suspect(ms: number): void {
    this.#suspectedForMs = ms;
    this.#waitedMs = 0;
  }

  /** Returns the id of a backend that has owed an answer for `ms` or longer; undefined if there is none. */
  backendOwing(ms: number): number | undefined {
    return this.#owed > 0 && this.#waitedMs >= ms ? (this.#client.processID ?? undefined) : undefined;
  }

  /**
   * Records whether PostgreSQL reports the backend as idle although it owes an answer: then the statement or
   * its answer was lost on the way. @returns whether it was idle at two consecutive checks
   */
  rests(isAtRest: boolean): boolean {
    this.#looksAtRest = isAtRest ? this.#looksAtRest + 1 : 0;
    return this.#looksAtRest > 1;
  }

  /** Must be called every CHECK_EVERY_MS. @returns whether the answer is overdue */
  tick(): boolean {
    if (this.#owed === 0) return false;
    this.#waitedMs += CHECK_EVERY_MS;
    return this.#waitedMs > (this.#suspectedForMs ?? this.#timeouts!.statementMs + ANSWER_GRACE_MS);
  }

  /** Terminates the socket: waiting callers fail at once, and the pool opens another one. */
  end(why: Error = noAnswer(this.#waitedMs)): void {
    this.#client.connection.stream.destroy(why);
  }
}
