import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import { chosenTimeouts, isOfOperators, isOfRequests, type Timeouts } from "../domain/kernel/timeouts.ts";
import { databaseTime } from "./database-time.ts";
import { LOOK_EVERY_MS, type Socketed, type Waiting } from "./waiting.ts";

/** How often a process asks PostgreSQL for its time, in ms. */
const ASK_EVERY_MS = 500;
/** Without an answer for so long PostgreSQL is silent, in ms. */
const ANSWER_MAX_MS = 1_000;
/** The pause before another connection is tried, in ms. */
const RETRY_MS = 100;
/** What requests have waited for so long when PostgreSQL falls silent is given up, in ms. */
const WEB_MAX_MS = 500;
/** What anything else waits for is given up when PostgreSQL has been silent for so long, in ms. */
const SILENT_MAX_MS = 20_000;
/** A connection from before a silence has so long to answer after it, in ms. */
const SUSPECT_MS = 750;
/** After so long without an answer, PostgreSQL is asked whether it works on the statement, in ms. */
const LOST_AFTER_MS = 1_000;
/** The step in which waits of the watch are counted, in ms. */
const TICK_MS = 100;

type AskingClient = Socketed & {
  connect(): Promise<unknown>;
  on(event: "error", listener: () => void): unknown;
  query<R>(text: string, values?: unknown[]): Promise<{ rows: R[] }>;
};
type PooledClient = Socketed & { waiting: Waiting; release(destroy?: boolean): void };
/** The part of pg's pool that is used. */
export type WatchedPool = {
  options: object;
  Client: new (options: never) => unknown;
  connect(...args: unknown[]): Promise<PooledClient>;
  on(event: "connect" | "acquire" | "release" | "remove", listener: (...of: never[]) => void): unknown;
};

/** Backends of this installation that have had nothing to do for a second; a state that is hidden is null. */
const AT_REST = `select pid from pg_stat_activity where pid = any($1) and datname = current_database()
  and usename = current_user and state like 'idle%'
  and state_change < clock_timestamp() - interval '1 second'`;

const silence = (): Error =>
  Object.assign(new Error(`PostgreSQL has not answered within ${ANSWER_MAX_MS} ms`), { code: "ETIMEDOUT" });

/** As `within`, but counted in ticks of this thread: being busy or stopped oneself is nobody's silence. */
const answered = async <T>(answer: Promise<T>): Promise<T> => {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    let waitedMs = 0;
    timer = setInterval(() => {
      waitedMs += TICK_MS;
      if (waitedMs > ANSWER_MAX_MS) reject(silence());
    }, TICK_MS);
  });
  // Whatever it comes to after that is heard by nobody.
  answer.catch(() => undefined);
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearInterval(timer);
  }
};

/** Whether the server has said so itself, which is no silence: no place for another connection, a restart. */
const isAnswer = (error: unknown): boolean =>
  error instanceof Error && "severity" in error && error.severity !== undefined;

/**
 * Watches over the connections of a pool: ends those that owe an answer for too long, and asks PostgreSQL
 * over a connection of its own. While that is not answered, requests are refused instead of waiting; when it
 * is again, the connections of before must prove themselves, since a network may swallow what they are told
 * and never say so.
 */
export class DatabaseWatch {
  readonly #pool: WatchedPool;
  readonly #usual: Timeouts;
  readonly #log: Logger | undefined;
  readonly #clients = new Set<PooledClient>();
  readonly #idle = new Set<PooledClient>();
  /** Of requests that wait for a connection. */
  readonly #refusals = new Set<() => void>();
  readonly #stopping = new AbortController();
  readonly #time = databaseTime();
  readonly #look: NodeJS.Timeout;
  readonly #asking: Promise<void>;
  #isSilent = false;
  /** Counted as waits are, in looks. */
  #silentMs = 0;
  #onBegun: (() => void) | undefined;
  /** Settles when the database has answered for the first time. */
  readonly begun = new Promise<void>((resolve) => {
    this.#onBegun = resolve;
  });

  /** @param usual the timeouts where none were chosen */
  constructor(pool: WatchedPool, usual: Timeouts, log?: Logger) {
    this.#pool = pool;
    this.#usual = usual;
    this.#log = log;
    this.#follow();
    this.#guardConnect();
    this.#look = setInterval(() => this.#lookAtAll(), LOOK_EVERY_MS).unref();
    this.#asking = this.#askForEver();
  }

  /** The database's time, which all processes share; that of this process until it was heard. */
  readonly clock = (): Date => this.#time.now();

  /** @throws Error when the database does not answer */
  check(): void {
    if (this.#isSilent) throw silence();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    clearInterval(this.#look);
    await this.#asking;
  }

  /** Knows at any time which clients there are, and which of them nobody has. */
  #follow(): void {
    const pool = this.#pool;
    pool.on("connect", (client: PooledClient) => this.#clients.add(client));
    pool.on("acquire", (client: PooledClient) => this.#idle.delete(client));
    pool.on("release", (_error: unknown, client: PooledClient) => this.#idle.add(client));
    pool.on("remove", (client: PooledClient) => {
      this.#clients.delete(client);
      this.#idle.delete(client);
    });
  }

  /** Requests wait for a connection only as long as PostgreSQL answers. */
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
        .then((client) => (this.#refusals.has(refuse) ? resolve(client) : client.release()), reject)
        .finally(() => this.#refusals.delete(refuse));
    });
  }

  #lookAtAll(): void {
    this.#silentMs = this.#isSilent ? this.#silentMs + LOOK_EVERY_MS : 0;
    for (const { waiting } of this.#clients) {
      if (!waiting.look() && !(this.#isSilent && this.#isGivenUp(waiting))) continue;
      waiting.end();
      // What one connection has not been told, the others may not have been either.
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

  #fallSilent(err: unknown): void {
    if (this.#isSilent || this.#stopping.signal.aborted) return;
    this.#isSilent = true;
    this.#log?.warn({ err }, "the database does not answer");
    for (const refuse of this.#refusals) refuse();
    this.#refusals.clear();
  }

  #speakAgain(): void {
    if (!this.#isSilent) return;
    this.#isSilent = false;
    this.#log?.info("the database answers again");
    this.#endIdle();
    for (const { waiting } of this.#clients) if (!isOfOperators(waiting.owedTo)) waiting.suspect(SUSPECT_MS);
  }

  async #askForEver(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const { password } = this.#pool.options as { password?: unknown };
      const client = new this.#pool.Client({ ...this.#pool.options, password } as never) as AskingClient;
      client.on("error", () => undefined);
      try {
        await this.#askOver(client);
      } catch (error) {
        if (!isAnswer(error)) this.#fallSilent(error);
      }
      client.connection.stream.destroy();
      await this.#pause(RETRY_MS);
    }
  }

  async #askOver(client: AskingClient): Promise<void> {
    await answered(client.connect());
    while (!this.#stopping.signal.aborted) {
      const sentMs = performance.now();
      const { rows } = await answered(
        client.query<{ ms: string }>("select extract(epoch from clock_timestamp()) * 1000 as ms"),
      );
      this.#time.heard(Number(rows[0]!.ms), sentMs);
      this.#speakAgain();
      this.#onBegun?.();
      await this.#endLost(client);
      await this.#pause(ASK_EVERY_MS);
    }
  }

  /** Ends connections that wait for an answer of a backend that is at work on nothing. */
  async #endLost(client: AskingClient): Promise<void> {
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
