import { RedisPresence } from "@colyseus/redis-presence";
import type { Redis } from "ioredis";
import type { RedisConnections } from "./redis-connection.ts";

/** Core's messages over Redis, which say when what was published may have been missed. */
export class HearingPresence extends RedisPresence {
  readonly #warn: RedisConnections["warn"];

  constructor({ open, warn }: RedisConnections) {
    super(open());
    this.#warn = warn;
    // A channel that nobody listens to any more is not subscribed to again: resubscribeAll() knows which are.
    (this.sub as Redis).options.autoResubscribe = false;
    for (const redis of [this.pub, this.sub]) {
      // Core would log each one of a row of failures.
      redis.removeAllListeners("error");
      redis.on("error", (err) => warn(err, "Redis does not answer"));
    }
  }

  /** Subscribes anew to all topics. */
  listenAgain(): void {
    this.resubscribeAll();
  }

  /** As core's, which would log each one of a row of failures. */
  override resubscribeAll(): void {
    const topics = this.subscriptions.eventNames().filter((topic) => typeof topic === "string");
    if (topics.length === 0) return;
    this.sub.subscribe(...topics).catch((err: unknown) => this.#warn(err, "topics are not heard again yet"));
  }

  /** Resolves when the connection that hears answers. @throws Error when it does not in time */
  async hears(): Promise<void> {
    await this.sub.ping();
  }

  /** Runs each time the connection that hears was replaced, once it has asked for all topics again. */
  onReplaced(run: () => void): void {
    this.sub.on("ready", run);
  }

  // Core forgets the promises of the methods below at several places: each has somebody who hears of it.

  override hset(key: string, field: string, value: string): Promise<boolean> {
    return this.#attended(super.hset(key, field, value));
  }

  /** As core's, which ends the process where Redis answers a transaction with nothing, as after a cut. */
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

  /** A question to another process whose answer cannot be subscribed to ends when its time is up. */
  override subscribe(topic: string, callback: (...args: unknown[]) => unknown): Promise<this> {
    const done = this.#attended(super.subscribe(topic, callback));
    return topic.startsWith("ipc:") ? done.catch(() => this) : done;
  }

  override unsubscribe(topic: string, callback?: (...args: unknown[]) => unknown): Promise<this> {
    return this.#attended(super.unsubscribe(topic, callback));
  }

  /** `done` itself, whose failure is logged now and then and is no unhandled rejection. */
  #attended<T>(done: Promise<T>): Promise<T> {
    done.catch((err: unknown) => this.#warn(err, "Redis does not answer"));
    return done;
  }
}

export const openPresence = (connections: RedisConnections): HearingPresence =>
  new HearingPresence(connections);
