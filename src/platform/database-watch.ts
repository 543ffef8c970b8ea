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
/** PostgreSQL counts as silent after this time without an answer, in ms. */
const ANSWER_MAX_MS = 1_000;
/** Delay before another connection is tried, in ms. */
const RETRY_MS = 100;
/** Interval at which the watch counts waiting time, in ms. */
const TICK_MS = 100;

type PollingClient = Socketed & {
  connect(): Promise<unknown>;
  on(event: "error", listener: () => void): unknown;
  query<R>(text: string, values?: unknown[]): Promise<{ rows: R[] }>;
};
type PooledClient = Socketed & {
  waiting: Waiting;
  /** The backend's process id, as reported by PostgreSQL. */
  processID?: number | null;
  release(destroy?: boolean): void;
};
/** The part of pg's pool that is used. */
export type WatchedPool = {
  options: { max?: number };
  readonly totalCount: number;
  Client: new (options: never) => unknown;
  connect(...args: unknown[]): Promise<PooledClient>;
  on(event: "connect" | "acquire" | "release" | "remove", listener: (...of: never[]) => void): unknown;
};

/** Time after which an operator's statement is lost if no backend has worked on it for as long, in ms. */
const LOST_AFTER_MS = 2_000;
/** Backends that work, or have lately; a hidden state is null. */
const AT_WORK = `select pid from pg_stat_activity where pid = any($1)
  and (coalesce(state, '') not like 'idle%' or state_change > clock_timestamp() - interval '${LOST_AFTER_MS} ms')`;

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
 * older connections are ended, since a network may drop packets without any error.
 */
export class DatabaseWatch {
  readonly #pool: WatchedPool;
  readonly #usual: Timeouts;
  readonly #log: Logger | undefined;
  readonly #clients = new Set<PooledClient>();
  readonly #idle = new Set<PooledClient>();
  readonly #stopping = new AbortController();
  readonly #time = databaseTime();
  readonly #timer: NodeJS.Timeout;
  readonly #polling: Promise<void>;
  #isSilent = false;
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
    this.#pool.connect = async (...args) => {
      const isWeb = isOfRequests(chosenTimeouts() ?? this.#usual);
      if (!isWeb || args.length > 0) return connect(...args);
      this.check();
      try {
        return await connect();
      } catch (error) {
        throw this.#isFull(error) ? tooBusy() : error;
      }
    };
  }

  /** Whether an error says that all connections stayed in use while PostgreSQL answers. */
  #isFull(error: unknown): boolean {
    const { totalCount, options } = this.#pool;
    return !this.#isSilent && isConnectTimeout(error) && totalCount >= (options.max ?? Infinity);
  }

  #checkAll(): void {
    for (const { waiting } of this.#clients) {
      if (!waiting.tick()) continue;
      waiting.end();
      // An answer lost on one connection may mean that the others are dead too.
      for (const idle of this.#idle) idle.waiting.end();
    }
  }

  #beginSilence(err: unknown): void {
    if (this.#isSilent || this.#stopping.signal.aborted) return;
    this.#isSilent = true;
    this.#log?.warn({ err }, "the database does not answer");
    for (const { waiting } of this.#clients) if (isOfRequests(waiting.owedTo)) waiting.end();
  }

  #endSilence(): void {
    if (!this.#isSilent) return;
    this.#isSilent = false;
    this.#log?.info("the database answers again");
    for (const { waiting } of this.#clients) if (!isOfOperators(waiting.owedTo)) waiting.end();
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
        client.query<{ ms: string }>("select extract(epoch from clock_timestamp()) * 1000 as ms"),
      );
      this.#time.observe(Number(rows[0]!.ms), sentMs);
      this.#endSilence();
      this.#onBegun?.();
      await this.#endLost(client);
      await this.#pause(POLL_EVERY_MS);
    }
  }

  /** Statements of operators may take an hour: what is lost on the way is not awaited for so long. */
  async #endLost(client: PollingClient): Promise<void> {
    const owing = [...this.#clients].filter(
      ({ waiting }) => isOfOperators(waiting.owedTo) && waiting.waitedMs >= LOST_AFTER_MS,
    );
    if (owing.length === 0) return;
    const pids = owing.map(({ processID }) => processID);
    const { rows } = await answered(client.query<{ pid: number }>(AT_WORK, [pids]));
    for (const one of owing) if (rows.every(({ pid }) => pid !== one.processID)) one.waiting.end();
  }

  async #pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#stopping.signal, ref: false }).catch(() => undefined);
  }
}
