import { type Command, Redis, type RedisOptions } from "ioredis";
import type { Logger } from "pino";
import { throttledWarnings } from "../domain/kernel/throttled-log.ts";

/** Who asks is answered, or told that there is no answer, within this time, in ms. */
const COMMAND_MAX_MS = 1_000;
/** A connection that is not made by then is tried anew, in ms. */
const CONNECT_MAX_MS = 2_000;
/** All processes are back within this time once Redis is, in ms. */
const RECONNECT_MAX_MS = 500;
/** How often a connection is looked at, in ms. */
const LOOK_EVERY_MS = 500;
/** Looks in a row at which an answer was due and nothing has come: then the connection is ended. */
const SILENT_LOOKS_MAX = 4;
/** Looks in a row at which a connection that is said to be ready has no socket: then it is made anew. */
const DEAD_LOOKS_MAX = 2;
/** A server that takes no writes may be a replica by now: its successor is looked for so often, in ms. */
const REPLACE_EVERY_MS = 2_000;

/** Blocking commands are answered after so many seconds at the latest, if only that there is nothing. */
const BLOCK_SECONDS = 2;
/** A connection that blocks may be silent for that much longer. */
const BLOCKED_LOOKS_MAX = SILENT_LOOKS_MAX + (BLOCK_SECONDS * 1_000) / LOOK_EVERY_MS;

type Policy = RedisOptions & {
  /** Looks of silence that end a connection which is ready; SILENT_LOOKS_MAX unless told otherwise. */
  silentLooksMax?: number;
};

/**
 * A connection that notices by itself when nobody is at the other end: the network may have lost a connection
 * without telling either side, and no time-out of a single command would end it. It is asked something when
 * nothing else is, subscribers included, and ended when it owes an answer and stays silent; ioredis then
 * connects anew. Looks are counted, not time, so that a process that stood still finds its connections alive.
 */
class WatchedRedis extends Redis {
  readonly #url: string;
  readonly #policy: Policy;
  readonly #silentLooksMax: number;
  readonly #timer: NodeJS.Timeout;
  /** Commands that have been sent once, or wait for a connection. */
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
    this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS).unref();
    this.on("end", () => clearInterval(this.#timer));
  }

  /** One more connection of the same kind. */
  override duplicate(override: Partial<RedisOptions> = {}): Redis {
    return new WatchedRedis(this.#url, { ...this.#policy, ...override });
  }

  /**
   * A command that waited and was given up meanwhile is not sent: its effect would come out of nothing. Those
   * of a pipeline, and so of a transaction, are: it writes nothing before all of them have come, and the
   * answers to all later commands would be taken for theirs.
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
      stream.destroy(new Error(`Redis was silent for ${this.#silentLooks * LOOK_EVERY_MS} ms`));
    else if (status === "ready" && owes === 0) this.ping().catch(() => undefined);
  }

  /** Makes a connection in the place of one that has ended without the client seeing it. */
  #replace(): void {
    this.#deadLooks = 0;
    if (!this.stream.destroyed) {
      this.stream.destroy(new Error("Redis takes no more of this connection"));
      return;
    }
    // The socket has said that it is closed already, and will not say so again.
    this["setStatus"]("close");
    this["flushQueue"](new Error("Connection is closed."), { offlineQueue: false });
    this.connect().catch(() => undefined);
  }

  /** Whether something has come since the last look, or there is nothing that it could come by. */
  #hasMoved(): boolean {
    const { stream, status } = this;
    const isOpen = (status === "ready" || status === "connect") && !stream.destroyed;
    const isSame = stream === this.#seen && stream.bytesRead === this.#seenBytes;
    [this.#seen, this.#seenBytes] = [stream, stream?.bytesRead ?? 0];
    return !isOpen || !isSame;
  }
}

/** Whether the time-out of a command is still to come. */
const isWaiting = (command: Command): boolean => command["_commandTimeoutTimer"] !== undefined;

/** Connects anew, once in a while, because of answers that say that this is no server to write to. */
const replaceReadOnly = (): ((error: Error) => boolean) => {
  let nextAtMs = 0;
  return ({ message }) => {
    if (!message.startsWith("READONLY") || performance.now() < nextAtMs) return false;
    nextAtMs = performance.now() + REPLACE_EVERY_MS;
    return true;
  };
};

/** Every connection to Redis of a process, all made by one policy. */
export type RedisConnections = {
  /** One whose commands fail within COMMAND_MAX_MS instead of piling up. */
  open(): Redis;
  /** One for commands that block for `blockSeconds` at most. */
  openBlocking(): Redis;
  blockSeconds: number;
  /** Says that something failed because of Redis, as often as a log should hear it. */
  warn(err: unknown, message: string): void;
};

export const redisConnections = (url: string, log: Logger): RedisConnections => {
  const warn = throttledWarnings(log);
  const connect = (policy: Policy): Redis => {
    const redis = new WatchedRedis(url, {
      connectTimeout: CONNECT_MAX_MS,
      // The client waits for the answers to these commands and then takes the connection for ready, also when
      // it has closed meanwhile (what accepts connections before Redis does closes them like that).
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
