import { connect } from "node:net";
import { chosenTimeouts, type Timeouts, wantedUntil } from "../domain/kernel/timeouts.ts";
import type { ReadStatement } from "../domain/kernel/read.ts";
import { ACCOUNTS_ROLE, WEB_ROLE } from "../domain/kernel/db.ts";
import { MARKS } from "../domain/kernel/statements.ts";
import type { RowScope } from "../domain/kernel/work.ts";
import { type Socketed, Waiting } from "./database-watch.ts";

/** A client of pg, as far as it takes to end what its backend does. */
type Cancelled = {
  processID?: number | null;
  secretKey?: number | null;
  connectionParameters?: { host: string; port: number };
};

/** A request to cancel: length, code, backend and its secret (PostgreSQL 18, 54.7, CancelRequest). */
const LENGTH = 16;
const CODE = 80_877_102;
/** How long it may take to be sent, in ms. */
const SENT_MAX_MS = 5_000;

/**
 * Asks PostgreSQL to end the statement of a backend, whose connection must be closed already: nobody else has
 * it then. Where that does not arrive, the server notices by itself that its client has gone, if it looks.
 */
const cancelStatement = ({ processID, secretKey, connectionParameters }: Cancelled): void => {
  if (!processID || typeof secretKey !== "number" || !connectionParameters) return;
  const { host, port } = connectionParameters;
  const message = Buffer.alloc(LENGTH);
  for (const [i, word] of [LENGTH, CODE, processID, secretKey].entries()) message.writeInt32BE(word, 4 * i);
  const socket = host.startsWith("/") ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host);
  socket.on("error", () => undefined).setTimeout(SENT_MAX_MS, () => socket.destroy());
  socket.resume();
  socket.end(message);
};

/** Maximum number of prepared statements; further ones are planned each time. */
const KEPT_MAX = 200;

const names = new Map<string, string>();

/** Returns the prepared statement's name for this text; undefined when there are too many. */
const nameOf = (text: string): string | undefined => {
  const known = names.get(text);
  if (known !== undefined || names.size >= KEPT_MAX) return known;
  const name = `kept_${names.size}`;
  names.set(text, name);
  return name;
};

/** The parts of pg's connection that are used: messages of PostgreSQL's protocol. */
type Connection = {
  parsedStatements: Record<string, string>;
  parse(message: { name: string; text: string }): void;
  sync(): void;
  bind(message: { portal: string; statement: string; values: readonly unknown[] }): void;
  execute(message: { portal: string }): void;
};

/** The parts of pg's query that are used. */
type Query = {
  prepare(connection: Connection): void;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, connection: Connection): void;
};
type QueryConfig = { name: string; text: string; values: readonly unknown[] };
type Done = (error: Error | null, answer: { rows: unknown[] }) => void;
// TypeScript requires `any` for a base class's constructor parameters; this is as good.
type QueryClass = new (config: QueryConfig, values?: undefined, callback?: Done) => Query;

/** Enters a role and sets tenant and projects for the transaction: prepared once on each connection. */
const ENTER = {
  name: "enter_scope",
  text: `select set_config('role', $1, true), set_config('laurel.tenant_id', $2, true),
    set_config('laurel.project_ids', $3, true)`,
  /** Enters nothing: for the preparation. */
  values: ["none", "", ""],
} as const;

const enterValues = (rowScope: RowScope): string[] =>
  rowScope.role === "web"
    ? [WEB_ROLE, rowScope.tenantId, `{${rowScope.projectIds.join(",")}}`]
    : [ACCOUNTS_ROLE, "", "{}"];

/** A statement that the connection has prepared. */
type Prepared = { name: string; values: readonly unknown[] };

/**
 * Creates the class of queries that run prepared statements and return the rows of the last. What comes
 * before one `Sync` is one transaction to PostgreSQL: it is committed, or undone, before the `Sync` is
 * answered, so there is neither `begin` nor `commit`, and one message there, one back.
 */
const ledQueryClass = (base: QueryClass) =>
  class LedQuery extends base {
    readonly #leads: readonly Prepared[];
    /** Those of which the end has not been heard. */
    #leading: number;

    constructor(config: QueryConfig, leads: readonly Prepared[], callback: Done) {
      super(config, undefined, callback);
      this.#leads = leads;
      this.#leading = leads.length;
    }

    override prepare(connection: Connection): void {
      for (const { name, values } of this.#leads) {
        connection.bind({ portal: "", statement: name, values });
        connection.execute({ portal: "" });
      }
      super.prepare(connection);
    }

    override handleDataRow(message: unknown): void {
      if (this.#leading === 0) super.handleDataRow(message);
    }

    override handleCommandComplete(message: unknown, connection: Connection): void {
      if (this.#leading > 0) this.#leading--;
      else super.handleCommandComplete(message, connection);
    }
  };

/** Creates the class of queries that prepare a statement and do not run it. */
const preparingClass = (base: QueryClass) =>
  class Preparing extends base {
    readonly #statement: { name: string; text: string };

    constructor({ name, text }: { name: string; text: string }, callback: Done) {
      super({ name, text, values: [] }, undefined, callback);
      this.#statement = { name, text };
    }

    override prepare(connection: Connection): void {
      connection.parse(this.#statement);
      connection.sync();
    }
  };

type ScopedAnswer = { rows: unknown[] };
type ScopedClient = {
  query(text: unknown, values?: unknown, callback?: unknown): unknown;
  readonly waiting: Waiting;
  readonly plans: { areOld(): boolean };
};

/** Names of the statements that are run in front of others; few texts. */
const leadNames = new Map<string, string>();

const leadNameOf = (text: string): string => {
  const name = leadNames.get(text) ?? `lead_${leadNames.size}`;
  leadNames.set(text, name);
  return name;
};

/** Adds statements that are a transaction of their own, within a scope, to the pool's clients. */
const withScopes = <T extends new (options: never) => ScopedClient>(
  base: T & { Query: QueryClass },
  usual: Timeouts,
) => {
  const LedQuery = ledQueryClass(base.Query);
  const Preparing = preparingClass(base.Query);
  // TypeScript wants a mixin's constructor to take any arguments.
  return class extends (base as unknown as new (options: never) => ScopedClient) {
    readonly #prepared = new Set<string>();

    /** Prepares for `scoped`; to be called once. */
    prepareScopes(): void {
      void Promise.resolve(super.query({ ...ENTER })).catch(() => undefined);
    }

    /**
     * Runs prepared statements as one transaction, and returns the rows of the last: one message, one answer.
     * All but the last must be of few texts.
     */
    scoped(rowScope: RowScope | undefined, statements: readonly ReadStatement[]): Promise<ScopedAnswer> {
      if (this.plans.areOld()) void Promise.resolve(super.query("discard plans")).catch(() => undefined);
      const { text, values } = statements.at(-1)!;
      let unprepared: Error | undefined;
      const leads = statements.slice(0, -1).map((statement) =>
        this.#leadOf(statement, (error) => {
          unprepared ??= error;
        }),
      );
      if (rowScope) leads.unshift({ name: ENTER.name, values: enterValues(rowScope) });
      const config = { name: nameOf(text) ?? "", text, values };
      const answer = new Promise<ScopedAnswer>((resolve, reject) => {
        const done: Done = (error, found) => (error ? reject(unprepared ?? error) : resolve(found));
        super.query(new LedQuery(config, leads, done));
      });
      this.waiting.expect(answer, chosenTimeouts() ?? usual);
      return answer;
    }

    /** Has a statement prepared, in front of the message that needs it. */
    #leadOf({ text, values }: ReadStatement, onError: (error: Error) => void): Prepared {
      const name = leadNameOf(text);
      if (this.#prepared.has(name)) return { name, values };
      this.#prepared.add(name);
      const done: Done = (error) => {
        if (!error) return;
        this.#prepared.delete(name);
        onError(error);
      };
      super.query(new Preparing({ name, text }, done));
      return { name, values };
    }
  } as unknown as T & { Query: QueryClass };
};

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
      const name = keptName(text);
      const answer = name === undefined ? this.#send(text, values) : this.#send({ name, text, values });
      if (isUnanswered(text)) return this.answers.unanswered(answer);
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
