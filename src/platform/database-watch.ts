import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import { tooBusy } from "../domain/kernel/bulkhead.ts";
import { chosenTimeouts, isOfOperators, isOfRequests, type Timeouts } from "../domain/kernel/timeouts.ts";

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

/** How often a process queries PostgreSQL's time, in ms. */
const POLL_EVERY_MS = 500;
/** PostgreSQL counts as silent after this time without an answer, in ms. */
const ANSWER_MAX_MS = 1_000;
/** Delay before another connection is tried, in ms. */
const RETRY_MS = 100;
/** Requests that have waited this long when PostgreSQL falls silent are aborted, in ms. */
const WEB_MAX_MS = 500;
/** Any other work is aborted when PostgreSQL has been silent for this long, in ms. */
const SILENT_MAX_MS = 20_000;
/** Time for a connection from before a silence to answer after it, in ms. */
const SUSPECT_MS = 750;
/** After this time without an answer, PostgreSQL is asked whether it is running the statement, in ms. */
const LOST_AFTER_MS = 1_000;
/** Interval at which the watch counts waiting time, in ms. */
const TICK_MS = 100;

type PollingClient = Socketed & {
  connect(): Promise<unknown>;
  on(event: "error", listener: () => void): unknown;
  query<R>(text: string, values?: unknown[]): Promise<{ rows: R[] }>;
};
type PooledClient = Socketed & { waiting: Waiting; release(destroy?: boolean): void };
/** The part of pg's pool that is used. */
export type WatchedPool = {
  options: { max?: number };
  readonly totalCount: number;
  Client: new (options: never) => unknown;
  connect(...args: unknown[]): Promise<PooledClient>;
  on(event: "connect" | "acquire" | "release" | "remove", listener: (...of: never[]) => void): unknown;
};

/** Backends of this installation that have been idle for a second; a hidden state is null. */
const AT_REST = `select pid from pg_stat_activity where pid = any($1) and datname = current_database()
  and usename = current_user and state like 'idle%'
  and state_change < clock_timestamp() - interval '1 second'`;

const silence = (): Error =>
  Object.assign(new Error(`PostgreSQL has not answered within ${ANSWER_MAX_MS} ms`), { code: "ETIMEDOUT" });

/**
 * As `within`, but counted in ticks of this thread: time when this process was busy or stopped is not the
 * database's silence.
 */
const answered = async <T>(answer: Promise<T>): Promise<T> => {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    let waitedMs = 0;
    timer = setInterval(() => {
      waitedMs += TICK_MS;
      if (waitedMs > ANSWER_MAX_MS) reject(silence());
    }, TICK_MS);
  });
  // A later outcome is ignored.
  answer.catch(() => undefined);
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearInterval(timer);
  }
};

/** The pool's error for a wait that took too long, whether for a free connection or for a new one. */
const isConnectTimeout = (error: unknown): boolean =>
  error instanceof Error && error.message === "timeout exceeded when trying to connect";

/**
 * Whether an error was reported by the server itself and so is no silence: too many connections, a restart.
 */
const isAnswer = (error: unknown): boolean =>
  error instanceof Error && "severity" in error && error.severity !== undefined;

/**
 * Watches the connections of a pool: ends those that owe an answer for too long, and queries PostgreSQL over
 * a connection of its own. While that gets no answer, requests are refused instead of waiting; once it does,
 * older connections must prove themselves, since a network may drop packets without any error.
 */
export class DatabaseWatch {
  readonly #pool: WatchedPool;
  readonly #usual: Timeouts;
  readonly #log: Logger | undefined;
  readonly #clients = new Set<PooledClient>();
  readonly #idle = new Set<PooledClient>();
  /** Refusals of requests that wait for a connection. */
  readonly #refusals = new Set<() => void>();
  readonly #stopping = new AbortController();
  readonly #time = databaseTime();
  readonly #timer: NodeJS.Timeout;
  readonly #polling: Promise<void>;
  #isSilent = false;
  /** Counted in ticks, as waits are. */
  #silentMs = 0;
  #onBegun: (() => void) | undefined;
  /** Resolves when the database has answered for the first time. */
  readonly begun = new Promise<void>((resolve) => {
    this.#onBegun = resolve;
  });

  /** @param usual the timeouts where none were chosen */
  constructor(pool: WatchedPool, usual: Timeouts, log?: Logger) {
    this.#pool = pool;
    this.#usual = usual;
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
    if (this.#isSilent) throw silence();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    clearInterval(this.#timer);
    await this.#polling;
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

  /** Lets requests wait for a connection only while PostgreSQL answers. */
  #guardConnect(): void {
    const connect = this.#pool.connect.bind(this.#pool);
    this.#pool.connect = (...args) => {
      const isWeb = isOfRequests(chosenTimeouts() ?? this.#usual);
      if (!isWeb || args.length > 0) return connect(...args);
      return this.#isSilent ? Promise.reject(silence()) : this.#unlessSilent(connect());
    };
  }

  #unlessSilent(connected: Promise<PooledClient>): Promise<PooledClient> {
    return new Promise((resolve, reject) => {
      const refuse = (): void => reject(silence());
      this.#refusals.add(refuse);
      connected
        .then(
          (client) => (this.#refusals.has(refuse) ? resolve(client) : client.release()),
          (error: unknown) => reject(this.#isFull(error) ? tooBusy() : (error as Error)),
        )
        .finally(() => this.#refusals.delete(refuse));
    });
  }

  /** Whether an error says that all connections stayed in use while PostgreSQL answers. */
  #isFull(error: unknown): boolean {
    const { totalCount, options } = this.#pool;
    return !this.#isSilent && isConnectTimeout(error) && totalCount >= (options.max ?? Infinity);
  }

  #checkAll(): void {
    this.#silentMs = this.#isSilent ? this.#silentMs + CHECK_EVERY_MS : 0;
    for (const { waiting } of this.#clients) {
      if (!waiting.tick() && !(this.#isSilent && this.#isGivenUp(waiting))) continue;
      waiting.end();
      // An answer lost on one connection may mean that the others are dead too.
      this.#endIdle();
    }
  }

  #isGivenUp({ owedTo, waitedMs }: Waiting): boolean {
    if (isOfRequests(owedTo)) return waitedMs >= WEB_MAX_MS;
    return owedTo !== undefined && this.#silentMs >= SILENT_MAX_MS;
  }

  #endIdle(): void {
    for (const { waiting } of this.#idle) waiting.end();
  }

  #beginSilence(err: unknown): void {
    if (this.#isSilent || this.#stopping.signal.aborted) return;
    this.#isSilent = true;
    this.#log?.warn({ err }, "the database does not answer");
    for (const refuse of this.#refusals) refuse();
    this.#refusals.clear();
  }

  #endSilence(): void {
    if (!this.#isSilent) return;
    this.#isSilent = false;
    this.#log?.info("the database answers again");
    this.#endIdle();
    for (const { waiting } of this.#clients) if (!isOfOperators(waiting.owedTo)) waiting.suspect(SUSPECT_MS);
  }

  async #pollForever(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const { password } = this.#pool.options as { password?: unknown };
      const client = new this.#pool.Client({ ...this.#pool.options, password } as never) as PollingClient;
      client.on("error", () => undefined);
      try {
        await this.#pollOver(client);
      } catch (error) {
        if (!isAnswer(error)) this.#beginSilence(error);
      }
      client.connection.stream.destroy();
      await this.#pause(RETRY_MS);
    }
  }

  async #pollOver(client: PollingClient): Promise<void> {
    await answered(client.connect());
    while (!this.#stopping.signal.aborted) {
      const sentMs = performance.now();
      const { rows } = await answered(
        client.query<{ ms: number }>("select extract(epoch from clock_timestamp()) * 1000 as ms"),
      );
      this.#time.observe(rows[0]!.ms, sentMs);
      this.#endSilence();
      this.#onBegun?.();
      await this.#endLost(client);
      await this.#pause(POLL_EVERY_MS);
    }
  }

  /** Ends connections that wait for an answer although their backend is idle. */
  async #endLost(client: PollingClient): Promise<void> {
    const owing = [...this.#clients].flatMap(({ waiting }) => {
      const pid = waiting.backendOwing(LOST_AFTER_MS);
      return pid === undefined ? [] : [{ waiting, pid }];
    });
    if (owing.length === 0) return;
    const { rows } = await answered(client.query<{ pid: number }>(AT_REST, [owing.map(({ pid }) => pid)]));
    const resting = new Set(rows.map(({ pid }) => pid));
    for (const { waiting, pid } of owing) {
      if (!waiting.rests(resting.has(pid)) || waiting.backendOwing(LOST_AFTER_MS) !== pid) continue;
      this.#log?.warn({ pid }, "a connection to the database has lost a statement or its answer");
      waiting.end();
      this.#endIdle();
    }
  }

  async #pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#stopping.signal, ref: false }).catch(() => undefined);
  }
}
