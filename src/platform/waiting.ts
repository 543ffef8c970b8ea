import type { Timeouts } from "../domain/kernel/timeouts.ts";

/** How often open waits are looked at, in ms. */
export const LOOK_EVERY_MS = 250;
/** How long after PostgreSQL should have ended a statement its answer must be there, in ms. */
const ANSWER_GRACE_MS = 1_000;

/** A client of pg, whose socket can be ended whatever the client waits for. */
export type Socketed = {
  /** The backend's process id, as PostgreSQL has told it. */
  processID?: number | null;
  connection: { stream: { destroy(error?: Error): unknown } };
};

const noAnswer = (ms: number): Error =>
  Object.assign(new Error(`PostgreSQL has not answered within ${ms} ms`), { code: "ETIMEDOUT" });

/**
 * What a connection waits for. Time is counted in looks and not by the clock: a process that was stopped, or
 * whose thread was busy, has not read what may have come long ago.
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

  /** A statement was sent; the timeouts are those of the newest. */
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

  /** The timeouts of what is waited for; undefined when nothing is. */
  get owedTo(): Timeouts | undefined {
    return this.#owed > 0 ? this.#timeouts : undefined;
  }

  get waitedMs(): number {
    return this.#waitedMs;
  }

  /** The connection may be dead: what it is asked must be answered within `ms` from now on, the next time. */
  suspect(ms: number): void {
    this.#suspectedForMs = ms;
    this.#waitedMs = 0;
  }

  /** The id of the backend that has owed an answer for `ms` or longer; undefined where none does. */
  backendOwing(ms: number): number | undefined {
    return this.#owed > 0 && this.#waitedMs >= ms ? (this.#client.processID ?? undefined) : undefined;
  }

  /**
   * PostgreSQL says whether the backend rests although it owes an answer: then the statement or its answer
   * was lost on the way. @returns whether it has rested at two looks in a row
   */
  rests(isAtRest: boolean): boolean {
    this.#looksAtRest = isAtRest ? this.#looksAtRest + 1 : 0;
    return this.#looksAtRest > 1;
  }

  /** To be called every LOOK_EVERY_MS. @returns whether the answer is overdue */
  look(): boolean {
    if (this.#owed === 0) return false;
    this.#waitedMs += LOOK_EVERY_MS;
    return this.#waitedMs > (this.#suspectedForMs ?? this.#timeouts!.statementMs + ANSWER_GRACE_MS);
  }

  /** Ends the socket: whoever waits is told at once, and the pool opens another one. */
  end(): void {
    this.#client.connection.stream.destroy(noAnswer(this.#waitedMs));
  }
}
