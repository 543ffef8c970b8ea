import { wantedUntil } from "../domain/kernel/presence.ts";
import { chosenTimeouts, type Timeouts } from "../domain/kernel/timeouts.ts";
import { countSent } from "../domain/kernel/statement-counts.ts";
import { MARKS } from "../domain/kernel/statements.ts";
import { cancelStatement, type Cancelled } from "./cancel-request.ts";
import { nameOf } from "./prepared-names.ts";
import { type QueryClass, withScopes } from "./scoped-query.ts";
import { type Socketed, Waiting } from "./waiting.ts";

/** The parts of pg's client and its pool that are used. */
type Client = Socketed & Cancelled & { query(text: unknown, values?: unknown, callback?: unknown): unknown };
// TypeScript requires `any` for a base class's constructor parameters; this is as good.
type ClientClass = (new (options: never) => Client) & { Query: QueryClass };
export type ClientPool = { Client: ClientClass };

/** Marks stand at the beginning of a statement, after the white space of the source. */
const MARKS_WITHIN = 64;

export const isMarked = (text: string, mark: string): boolean => text.slice(0, MARKS_WITHIN).includes(mark);

const isUnanswered = (text: string): boolean =>
  isMarked(text, MARKS.unanswered) || isMarked(text, MARKS.oneMessage);

/** Makes plans anew. */
const DISCARD = "discard plans";

/** Whether a statement only begins or ends a transaction, or enters a scope. */
const isOfTransaction = (text: string): boolean =>
  text === "commit" || text === "rollback" || text === DISCARD || isMarked(text, MARKS.oneMessage);

/**
 * How long prepared plans are kept, in ms. Tables grow, and the plan for a small one may read all of it: the
 * server itself replans only when statistics were gathered.
 */
const PLANS_KEPT_MS = 5_000;

/** Tells when the plans of a connection are to be made anew. */
export class PlanAge {
  #plannedMs = 0;

  /** Whether they are now: then the caller has it done. */
  areOld(): boolean {
    if (performance.now() - this.#plannedMs < PLANS_KEPT_MS) return false;
    this.#plannedMs = performance.now();
    return true;
  }
}

/** Returns the prepared statement's name for this text; undefined if it is not to be kept. */
const keptName = (text: string): string | undefined =>
  isMarked(text, MARKS.kept) ? nameOf(text) : undefined;

type Answer = { command: string; rowCount: number | null; rows: unknown[] };

const NO_ROWS: Answer = { command: "", rowCount: null, rows: [] };

/** Tracks the outstanding answers of a transaction's statements. */
class PendingAnswers {
  /** Settles with the last statement that nobody awaits. */
  #sent: Promise<void> = Promise.resolve();
  /** The first failure among those. */
  #failure: Error | undefined;

  /** Begins a new transaction. */
  reset(): void {
    this.#failure = undefined;
  }

  unanswered(answer: unknown): Promise<Answer> {
    this.#sent = (answer as Promise<unknown>).then(
      () => undefined,
      (error: Error) => {
        this.#failure ??= error;
      },
    );
    return Promise.resolve(NO_ROWS);
  }

  async answered(text: string, answer: unknown): Promise<Answer> {
    try {
      return await (answer as Promise<Answer>);
    } catch (error) {
      await this.#sent;
      throw this.#failure ?? error;
    } finally {
      // Also to a savepoint: the failed statements are undone.
      if (text.startsWith("rollback")) this.#failure = undefined;
    }
  }

  /** Checks the answer to `commit`: after a failed statement it succeeds, but says "ROLLBACK". */
  async committed(answer: unknown): Promise<Answer> {
    const committed = await this.answered("commit", answer);
    await this.#sent;
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure) throw failure;
    if (committed.command === "ROLLBACK") throw new Error("A failed transaction was to be committed.");
    return committed;
  }
}

/** Settings of one transaction, so that a pooler passes none of them on. */
const limitsOf = ({ statementMs, lockMs, idleMs }: Timeouts): string =>
  `set local statement_timeout = ${statementMs}; set local lock_timeout = ${lockMs}; ` +
  `set local idle_in_transaction_session_timeout = ${idleMs}`;

/**
 * Makes the pool's clients, which must be ones that pipeline, wait for as few answers as a transaction needs.
 * `begin` is sent with the first statement; marked ones are reported as done as soon as they are sent, so the
 * next one, or `commit`, follows at once. PostgreSQL runs them in order and, after a failure, none until
 * `rollback`: the failure is raised by the next awaited statement, `commit` at the latest. Those that are
 * marked as kept are prepared. Transactions whose timeouts differ from `usual`, which the sessions have, set
 * their own; every statement is awaited within the timeouts of where it was sent.
 */
export const pipelineStatements = (pool: ClientPool, usual: Timeouts): void => {
  pool.Client = withScopes(pipelining(pool.Client, usual), usual);
};

/** Ends a connection, and what its backend does, when nobody wants the answer any more. */
const endUnwanted = (client: Cancelled & { waiting: Waiting }, answer: Promise<unknown>): void => {
  const signal = wantedUntil();
  if (!signal) return;
  const end = (): void => {
    // Closed first: what is cancelled afterwards is nobody else's statement.
    client.waiting.end(signal.reason as Error);
    cancelStatement(client);
  };
  const answered = (): void => signal.removeEventListener("abort", end);
  answer.then(answered, answered);
  if (signal.aborted) end();
  else signal.addEventListener("abort", end, { once: true });
};

const pipelining = (base: ClientClass, usual: Timeouts) =>
  class extends base {
    readonly waiting = new Waiting(this);
    private isHeldBack = false;
    readonly plans = new PlanAge();
    private readonly answers = new PendingAnswers();

    override query(text: unknown, values?: unknown, callback?: unknown): unknown {
      if (text === "begin") {
        this.isHeldBack = true;
        this.answers.reset();
        return Promise.resolve(NO_ROWS);
      }
      if (this.isHeldBack) {
        this.isHeldBack = false;
        // Before the transaction: it would be its first query, behind which no isolation can be set.
        if (this.plans.areOld()) void this.answers.unanswered(this.#send(DISCARD));
        if (typeof text === "string" && isMarked(text, MARKS.oneMessage))
          return this.answers.unanswered(this.#send(`${this.#begin()}; ${text}`));
        void this.answers.unanswered(this.#send(this.#begin()));
      }
      if (callback !== undefined || typeof text !== "string") return super.query(text, values, callback);
      return this.#sendText(text, values);
    }

    #sendText(text: string, values: unknown): unknown {
      const isAwaited = !isUnanswered(text);
      countSent({ statements: isOfTransaction(text) ? 0 : 1, roundTrips: isAwaited ? 1 : 0 });
      const name = keptName(text);
      const answer = name === undefined ? this.#send(text, values) : this.#send({ name, text, values });
      if (!isAwaited) return this.answers.unanswered(answer);
      if (!isOfTransaction(text)) endUnwanted(this, answer as Promise<unknown>);
      return text === "commit" ? this.answers.committed(answer) : this.answers.answered(text, answer);
    }

    #send(query: unknown, values?: unknown): unknown {
      const answer = super.query(query, values) as Promise<unknown>;
      this.waiting.expect(answer, chosenTimeouts() ?? usual);
      return answer;
    }

    #begin(): string {
      const timeouts = chosenTimeouts() ?? usual;
      return timeouts === usual ? "begin" : `begin; ${limitsOf(timeouts)}`;
    }
  };
