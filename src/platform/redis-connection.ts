import { type Command, Redis, type RedisOptions } from "ioredis";
import type { Logger } from "pino";
import { throttledWarnings } from "../domain/kernel/outages.ts";
import { RedisPresence } from "@colyseus/redis-presence";

/** Core's messages over Redis, extended by a signal when published messages may have been missed. */
export class ResubscribingPresence extends RedisPresence {
  readonly #warn: RedisConnections["warn"];

  constructor({ open, warn }: RedisConnections) {
    super(open());
    this.#warn = warn;
    // Topics without listeners are not subscribed to again: resubscribeAll() knows the others.
    (this.sub as Redis).options.autoResubscribe = false;
    for (const redis of [this.pub, this.sub]) {
      // Core would log each of a series of failures.
      redis.removeAllListeners("error");
      redis.on("error", (err) => warn(err, "Redis does not answer"));
    }
  }

  /** Renews the subscriptions to all topics; as core's, which would log each of a series of failures. */
  override resubscribeAll(): void {
    const topics = this.subscriptions.eventNames().filter((topic) => typeof topic === "string");
    if (topics.length === 0) return;
    this.sub.subscribe(...topics).catch((err: unknown) => this.#warn(err, "topics are not heard again yet"));
  }

  /** Resolves when the subscribing connection answers. @throws Error when it does not in time */
  async checkSubscriber(): Promise<void> {
    await this.sub.ping();
  }

  /** Runs each time the subscribing connection was replaced, after all topics were subscribed to again. */
  onReplaced(run: () => void): void {
    this.sub.on("ready", run);
  }

  // Core drops the promises of the methods below at several places: each failure is handled here.

  override hset(key: string, field: string, value: string): Promise<boolean> {
    return this.#attended(super.hset(key, field, value));
  }

  /**
   * As core's, which ends the process when Redis answers a transaction with nothing, as after a connection
   * loss.
   */
  override hincrbyex(key: string, field: string, value: number, expireInSeconds: number): Promise<number> {
    return this.#attended(this.#addFor(key, { field, value, expireInSeconds }));
  }

  async #addFor(
    key: string,
    { field, value, expireInSeconds }: { field: string; value: number; expireInSeconds: number },
  ): Promise<number> {
    const answers = await this.pub.multi().hincrby(key, field, value).expire(key, expireInSeconds).exec();
    const [error, sum] = answers?.[0] ?? [new Error("Redis answered a transaction with nothing")];
    if (error) throw error;
    return sum as number;
  }

  override publish(topic: string, data: unknown): Promise<void> {
    return this.#attended(super.publish(topic, data));
  }

  /** A request to another process whose reply topic cannot be subscribed to fails by its timeout. */
  override subscribe(topic: string, callback: (...args: unknown[]) => unknown): Promise<this> {
    const done = this.#attended(super.subscribe(topic, callback));
    return topic.startsWith("ipc:") ? done.catch(() => this) : done;
  }

  override unsubscribe(topic: string, callback?: (...args: unknown[]) => unknown): Promise<this> {
    return this.#attended(super.unsubscribe(topic, callback));
  }

  /**
   * Returns `done` itself; its failure is logged at a limited rate instead of being an unhandled rejection.
   */
  #attended<T>(done: Promise<T>): Promise<T> {
    done.catch((err: unknown) => this.#warn(err, "Redis does not answer"));
    return done;
  }
}

/** Time after which a command without an answer fails, in ms. */
const COMMAND_MAX_MS = 1_000;
/** A connection attempt that takes longer than this is restarted, in ms. */
const CONNECT_MAX_MS = 2_000;
/** Maximum delay between reconnection attempts: all processes are back this soon after Redis is, in ms. */
const RECONNECT_MAX_MS = 500;
/** How often a connection is checked, in ms. */
const CHECK_EVERY_MS = 500;
/** Consecutive checks without a due answer after which the connection is ended. */
const SILENT_LOOKS_MAX = 4;
/** Consecutive checks without a socket after which a supposedly ready connection is replaced. */
const DEAD_LOOKS_MAX = 2;
/** A server that refuses writes may have become a replica: its successor is looked up this often, in ms. */
const REPLACE_EVERY_MS = 2_000;

/** Maximum time that a blocking command blocks before it returns empty, in seconds. */
const BLOCK_SECONDS = 2;
/** Additional silence allowed on a blocking connection. */
const BLOCKED_LOOKS_MAX = SILENT_LOOKS_MAX + (BLOCK_SECONDS * 1_000) / CHECK_EVERY_MS;

type Policy = RedisOptions & {
  /** Checks of silence that end a ready connection; SILENT_LOOKS_MAX by default. */
  silentLooksMax?: number;
};

/**
 * A connection that detects when the other end is gone: the network may lose a connection without notice to
 * either side, and no timeout of a single command would end it. It sends a ping when idle, also as a
 * subscriber, and is ended when it owes an answer and stays silent; ioredis then reconnects. Checks are
 * counted rather than time, so that a process that was paused finds its connections alive.
 */
class WatchedRedis extends Redis {
  readonly #url: string;
  readonly #policy: Policy;
  readonly #silentLooksMax: number;
  readonly #timer: NodeJS.Timeout;
  /** Commands that were sent once, or are queued for a connection. */
  readonly #taken = new WeakSet<Command>();
  #seen: Redis["stream"] | undefined;
  #seenBytes = 0;
  #silentLooks = 0;
  #deadLooks = 0;

  constructor(url: string, policy: Policy) {
    super(url, policy);
    this.#url = url;
    this.#policy = policy;
    this.#silentLooksMax = policy.silentLooksMax ?? SILENT_LOOKS_MAX;
    this.#timer = setInterval(() => this.#look(), CHECK_EVERY_MS).unref();
    this.on("end", () => clearInterval(this.#timer));
  }

  /** Opens another connection of the same kind. */
  override duplicate(override: Partial<RedisOptions> = {}): Redis {
    return new WatchedRedis(this.#url, { ...this.#policy, ...override });
  }

  /**
   * Drops a queued command that was given up meanwhile: its late effect would surprise everybody. Those of a
   * pipeline, and so of a transaction, are sent: it writes nothing before all of them have arrived, and the
   * answers to all later commands would be attributed to them.
   */
  override sendCommand(command: Command, stream?: Parameters<Redis["sendCommand"]>[1]): unknown {
    const isAlone = stream === undefined || !("isPipeline" in stream);
    const isGivenUp = this.options.commandTimeout !== undefined && !isWaiting(command);
    if (isAlone && isGivenUp && this.#taken.has(command)) return command.promise;
    this.#taken.add(command);
    return super.sendCommand(command, stream);
  }

  #look(): void {
    const { stream, status } = this;
    this.#deadLooks = status === "ready" && !stream.writable ? this.#deadLooks + 1 : 0;
    if (this.#deadLooks >= DEAD_LOOKS_MAX) return this.#replace();
    const owes = this["commandQueue"].length;
    if (this.#hasMoved()) this.#silentLooks = 0;
    else if (owes > 0) this.#silentLooks++;
    if (this.#silentLooks >= (status === "ready" ? this.#silentLooksMax : SILENT_LOOKS_MAX))
      stream.destroy(new Error(`Redis was silent for ${this.#silentLooks * CHECK_EVERY_MS} ms`));
    else if (status === "ready" && owes === 0) this.ping().catch(() => undefined);
  }

  /** Replaces a connection that has ended without the client noticing. */
  #replace(): void {
    this.#deadLooks = 0;
    if (!this.stream.destroyed) {
      this.stream.destroy(new Error("Redis takes no more of this connection"));
      return;
    }
    // The socket has emitted its close event already, and will not do so again.
    this["setStatus"]("close");
    this["flushQueue"](new Error("Connection is closed."), { offlineQueue: false });
    this.connect().catch(() => undefined);
  }

  /** Whether something has arrived since the last check, or nothing can arrive. */
  #hasMoved(): boolean {
    const { stream, status } = this;
    const isOpen = (status === "ready" || status === "connect") && !stream.destroyed;
    const isSame = stream === this.#seen && stream.bytesRead === this.#seenBytes;
    [this.#seen, this.#seenBytes] = [stream, stream?.bytesRead ?? 0];
    return !isOpen || !isSame;
  }
}

/** Whether the timeout of a command is still pending. */
const isWaiting = (command: Command): boolean => command["_commandTimeoutTimer"] !== undefined;

/** Reconnects, at a limited rate, after errors that indicate a read-only server. */
const replaceReadOnly = (): ((error: Error) => boolean) => {
  let nextAtMs = 0;
  return ({ message }) => {
    if (!message.startsWith("READONLY") || performance.now() < nextAtMs) return false;
    nextAtMs = performance.now() + REPLACE_EVERY_MS;
    return true;
  };
};

/** Opens all Redis connections of a process, with one policy. */
export type RedisConnections = {
  /** Opens a connection whose commands fail within COMMAND_MAX_MS instead of piling up. */
  open(): Redis;
  /** Opens a connection for commands that block for `blockSeconds` at most. */
  openBlocking(): Redis;
  blockSeconds: number;
  /** Logs a failure caused by Redis, at a limited rate. */
  warn(err: unknown, message: string): void;
};

export const redisConnections = (url: string, log: Logger): RedisConnections => {
  const warn = throttledWarnings(log);
  const connect = (policy: Policy): Redis => {
    const redis = new WatchedRedis(url, {
      connectTimeout: CONNECT_MAX_MS,
      // The client waits for the answers to these commands and then assumes that the connection is ready,
      // even when it has been closed meanwhile (as by a proxy that accepts connections before Redis does).
      disableClientInfo: true,
      maxLoadingRetryTime: RECONNECT_MAX_MS,
      retryStrategy: (attempt) => Math.min(attempt * 50, RECONNECT_MAX_MS),
      ...policy,
    });
    redis.on("error", (err) => warn(err, "Redis does not answer"));
    return redis;
  };
  return {
    open: () =>
      connect({
        commandTimeout: COMMAND_MAX_MS,
        maxRetriesPerRequest: 2,
        reconnectOnError: replaceReadOnly(),
      }),
    openBlocking: () =>
      connect({
        maxRetriesPerRequest: null,
        enableReadyCheck: false,
        silentLooksMax: BLOCKED_LOOKS_MAX,
        reconnectOnError: replaceReadOnly(),
      }),
    blockSeconds: BLOCK_SECONDS,
    warn,
  };
};
