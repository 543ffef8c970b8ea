import { RedisPresence } from "@colyseus/redis-presence";
import type { Redis } from "ioredis";
import type { RedisConnections } from "./redis-connection.ts";

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

  /** Renews the subscriptions to all topics. */
  resubscribe(): void {
    this.resubscribeAll();
  }

  /** As core's, which would log each of a series of failures. */
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

export const openPresence = (connections: RedisConnections): ResubscribingPresence =>
  new ResubscribingPresence(connections);
