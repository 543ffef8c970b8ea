import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import { tooBusy } from "../domain/kernel/bulkhead.ts";
import { isOfOperators, type Timeouts } from "../domain/kernel/timeouts.ts";

/** This process's estimate of the database's time. */
type DatabaseTime = {
  now(): Date;
  /** Records that the database answered `ms` to a query sent at `sentMs` of `performance.now()`. */
  observe(ms: number, sentMs: number): void;
};

/**
 * Follows the database's clock, which all processes of an installation share, so that leases and due times
 * agree whatever the machines' clocks say. Between two answers it uses a monotonic clock. An answer is
 * accurate to its round-trip time: the estimate moves only as far as it must, and so does not jitter with the
 * network.
 */
export const databaseTime = (): DatabaseTime => {
  let aheadMs = Date.now() - performance.now();
  return {
    now: () => new Date(performance.now() + aheadMs),
    observe: (ms, sentMs) => {
      const [least, most] = [ms - performance.now(), ms - sentMs];
      aheadMs = Math.min(Math.max(aheadMs, least), most);
    },
  };
};

/** How often open waits are checked, in ms. */
const CHECK_EVERY_MS = 250;
/** Grace for the answer to arrive after PostgreSQL should have ended the statement, in ms. */
const ANSWER_GRACE_MS = 1_000;
/** After this time PostgreSQL is asked whether it still runs what an operator waits for, in ms. */
const LOOK_AFTER_MS = 1_000;

/** A client of pg, whose socket can be terminated at any time; `processID` of its backend once it is connected. */
export type Socketed = {
  processID?: number | null;
  connection: { stream: { destroy(error?: Error): unknown } };
};

const noAnswer = (ms: number): Error =>
  Object.assign(new Error(`PostgreSQL has not answered within ${ms} ms`), { code: "ETIMEDOUT" });

/**
 * Whether an error was reported by the server itself and so is no silence: too many connections, a restart.
 */
const isAnswer = (error: unknown): boolean =>
  error instanceof Error && "severity" in error && error.severity !== undefined;

/**
 * Tracks the answers that a connection waits for. Time is counted in checks, not by the clock: a process that
 * was paused, or whose thread was busy, has not read answers that may have arrived long ago.
 */
export class Waiting {
  readonly #client: Socketed;
  #owed = 0;
  #waitedMs = 0;
  #timeouts: Timeouts | undefined;
  #isHeard = false;
  #looksAtRest = 0;

  constructor(client: Socketed) {
    this.#client = client;
  }

  /** Records a sent statement; the newest one's timeouts apply. */
  expect(answer: Promise<unknown>, timeouts: Timeouts): void {
    if (this.#owed++ === 0) this.#waitedMs = 0;
    this.#timeouts = timeouts;
    const ended = (isAnswered: boolean): void => {
      this.#owed--;
      this.#waitedMs = 0;
      this.#looksAtRest = 0;
      this.#isHeard ||= isAnswered;
    };
    answer.then(
      () => ended(true),
      (error: unknown) => ended(isAnswer(error)),
    );
  }

  /** Whether the server has answered since the last call. */
  takeHeard(): boolean {
    const isHeard = this.#isHeard;
    this.#isHeard = false;
    return isHeard;
  }

  /** Whether a statement is awaited that may run for so long that silence means nothing. */
  get isOfOperators(): boolean {
    return this.#owed > 0 && isOfOperators(this.#timeouts);
  }

  /** The backend that owes an operator an answer for some time; undefined if there is none. */
  get backendOfOperators(): number | undefined {
    return this.isOfOperators && this.#waitedMs >= LOOK_AFTER_MS
      ? (this.#client.processID ?? undefined)
      : undefined;
  }

  /**
   * Records whether PostgreSQL says that the backend is idle although it owes an answer: then the statement or
   * its answer was lost. @returns whether it was idle at two looks in a row
   */
  rests(isAtRest: boolean): boolean {
    this.#looksAtRest = isAtRest ? this.#looksAtRest + 1 : 0;
    return this.#looksAtRest > 1;
  }

  /** Must be called every CHECK_EVERY_MS. @returns whether the answer is overdue */
  tick(): boolean {
    if (this.#owed === 0) return false;
    this.#waitedMs += CHECK_EVERY_MS;
    return this.#waitedMs > this.#timeouts!.statementMs + ANSWER_GRACE_MS;
  }

  /** Terminates the socket: waiting callers fail at once, and the pool opens another one. */
  end(why: Error = noAnswer(this.#waitedMs)): void {
    this.#client.connection.stream.destroy(why);
  }
}

/** How often a process queries PostgreSQL's time, in ms. */
const POLL_EVERY_MS = 500;
/** PostgreSQL counts as silent after this time without an answer, in ms; after the longer one operators give up. */
const SILENT_AFTER_MS = 3_000;
const OPERATORS_AFTER_MS = 20_000;
/** Time limit for the watch's own connection to be opened, and delay before another is tried, in ms. */
const CONNECT_MAX_MS = 1_000;
const RETRY_MS = 100;

type PollingClient = Socketed & {
  connect(): Promise<unknown>;
  on(event: "error", listener: () => void): unknown;
  query<R>(text: string, values?: unknown[]): Promise<{ rows: R[] }>;
};
type PooledClient = Socketed & { waiting: Waiting; release(): void };
/** The part of pg's pool that is used. */
export type WatchedPool = {
  options: { max?: number };
  readonly totalCount: number;
  Client: new (options: never) => unknown;
  connect(...args: unknown[]): Promise<PooledClient>;
  on(event: "connect" | "acquire" | "release" | "remove", listener: (...of: never[]) => void): unknown;
};

/** Backends of this user that have been idle for a second. */
const AT_REST = `select pid from pg_stat_activity where pid = any($1) and datname = current_database()
  and usename = current_user and state like 'idle%'
  and state_change < clock_timestamp() - interval '1 second'`;

/** The pool's error for a wait that took too long, whether for a free connection or for a new one. */
const isConnectTimeout = (error: unknown): boolean =>
  error instanceof Error && error.message === "timeout exceeded when trying to connect";

/**
 * Watches the connections of a pool, since a network may drop packets without any error, and whoever waits
 * would do so for minutes: ends those that owe an answer for too long, and asks PostgreSQL for its time over a
 * connection of its own. While that gets no answer, nobody waits for a connection, and those of before end.
 */
export class DatabaseWatch {
  readonly #pool: WatchedPool;
  readonly #log: Logger | undefined;
  readonly #clients = new Set<PooledClient>();
  readonly #idle = new Set<PooledClient>();
  /** Refusals of those who wait for a connection. */
  readonly #refusals = new Set<() => void>();
  readonly #stopping = new AbortController();
  readonly #time = databaseTime();
  readonly #timer: NodeJS.Timeout;
  readonly #polling: Promise<void>;
  #client: PollingClient | undefined;
  /** Since the watch's own connection has answered, or was begun, and since any has: counted in checks. */
  #askingMs = 0;
  #unansweredMs = 0;
  #onBegun: (() => void) | undefined;
  /** Resolves when the database has answered for the first time. */
  readonly begun = new Promise<void>((resolve) => {
    this.#onBegun = resolve;
  });

  constructor(pool: WatchedPool, log?: Logger) {
    this.#pool = pool;
    this.#log = log;
    this.#trackClients();
    this.#guardConnect();
    this.#timer = setInterval(() => this.#checkAll(), CHECK_EVERY_MS).unref();
    this.#polling = this.#pollForever();
  }

  /** The database's time, which all processes share; that of this process before the first answer. */
  readonly clock = (): Date => this.#time.now();

  /** @throws Error when the database does not answer */
  check(): void {
    if (this.#isSilent) throw noAnswer(this.#unansweredMs);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    clearInterval(this.#timer);
    await this.#polling;
  }

  get #isSilent(): boolean {
    return this.#unansweredMs >= SILENT_AFTER_MS;
  }

  /** Keeps track of all clients, and of which are idle. */
  #trackClients(): void {
    const pool = this.#pool;
    pool.on("connect", (client: PooledClient) => this.#clients.add(client));
    pool.on("acquire", (client: PooledClient) => this.#idle.delete(client));
    pool.on("release", (_error: unknown, client: PooledClient) => this.#idle.add(client));
    pool.on("remove", (client: PooledClient) => {
      this.#clients.delete(client);
      this.#idle.delete(client);
    });
  }

  /** Nobody waits for a connection while PostgreSQL is silent; while it answers, those are in use. */
  #guardConnect(): void {
    const connect = this.#pool.connect.bind(this.#pool);
    this.#pool.connect = async (...args) => {
      if (args.length > 0) return connect(...args);
      this.check();
      try {
        return await this.#unlessSilent(connect());
      } catch (error) {
        throw this.#isFull(error) ? tooBusy() : error;
      }
    };
  }

  /** The next silence ends the wait, which is else as long as that for a new connection. */
  #unlessSilent(connected: Promise<PooledClient>): Promise<PooledClient> {
    return new Promise((resolve, reject) => {
      const refuse = (): void => reject(noAnswer(SILENT_AFTER_MS));
      this.#refusals.add(refuse);
      connected
        .then((client) => (this.#refusals.has(refuse) ? resolve(client) : client.release()), reject)
        .finally(() => this.#refusals.delete(refuse));
    });
  }

  /** Whether an error says that all connections stayed in use while PostgreSQL answers. */
  #isFull(error: unknown): boolean {
    const { totalCount, options } = this.#pool;
    return !this.#isSilent && isConnectTimeout(error) && totalCount >= (options.max ?? Infinity);
  }

  #checkAll(): void {
    const wasSilent = this.#isSilent;
    this.#unansweredMs += CHECK_EVERY_MS;
    this.#askingMs += CHECK_EVERY_MS;
    // Its answer may be lost while others come, or after a silence: then another connection asks.
    if (this.#askingMs >= SILENT_AFTER_MS) this.#client?.connection.stream.destroy();
    const waits = [...this.#clients].map(({ waiting }) => waiting);
    if (waits.filter((waiting) => waiting.takeHeard()).length > 0) this.#hear();
    if (this.#isSilent && !wasSilent) this.#beginSilence(waits);
    const isGivenUp = this.#unansweredMs >= OPERATORS_AFTER_MS;
    const overdue = waits.filter((waiting) => waiting.tick() || (isGivenUp && waiting.isOfOperators));
    for (const waiting of overdue) waiting.end();
    // An answer lost on one connection may mean that the others are dead too.
    if (overdue.length > 0) for (const { waiting } of this.#idle) waiting.end();
  }

  #beginSilence(waits: readonly Waiting[]): void {
    this.#log?.warn("the database does not answer");
    for (const refuse of this.#refusals) refuse();
    this.#refusals.clear();
    for (const waiting of waits) if (!waiting.isOfOperators) waiting.end(noAnswer(SILENT_AFTER_MS));
  }

  #hear(): void {
    if (this.#isSilent) this.#log?.info("the database answers again");
    this.#unansweredMs = 0;
  }

  async #pollForever(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const { password } = this.#pool.options as { password?: unknown };
      const options = { ...this.#pool.options, password, connectionTimeoutMillis: CONNECT_MAX_MS };
      const client = new this.#pool.Client(options as never) as PollingClient;
      client.on("error", () => undefined);
      this.#client = client;
      this.#askingMs = 0;
      try {
        await this.#pollOver(client);
      } catch (error) {
        if (isAnswer(error)) this.#hear();
      }
      client.connection.stream.destroy();
      await this.#pause(RETRY_MS);
    }
  }

  async #pollOver(client: PollingClient): Promise<void> {
    await client.connect();
    while (!this.#stopping.signal.aborted) {
      const sentMs = performance.now();
      const { rows } = await client.query<{ ms: number }>(
        "select extract(epoch from clock_timestamp()) * 1000 as ms",
      );
      this.#time.observe(rows[0]!.ms, sentMs);
      this.#askingMs = 0;
      this.#hear();
      this.#onBegun?.();
      await this.#endLost(client);
      await this.#pause(POLL_EVERY_MS);
    }
  }

  /**
   * Ends connections by which operators wait for an answer that no backend owes: their statements may take an
   * hour, so nothing else would end the wait.
   */
  async #endLost(client: PollingClient): Promise<void> {
    const owing = [...this.#clients].flatMap(({ waiting }) => {
      const pid = waiting.backendOfOperators;
      return pid === undefined ? [] : [{ waiting, pid }];
    });
    if (owing.length === 0) return;
    const { rows } = await client.query<{ pid: number }>(AT_REST, [owing.map(({ pid }) => pid)]);
    const resting = new Set(rows.map(({ pid }) => pid));
    for (const { waiting, pid } of owing)
      if (waiting.rests(resting.has(pid)) && waiting.backendOfOperators === pid) waiting.end();
  }

  async #pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#stopping.signal, ref: false }).catch(() => undefined);
  }
}
