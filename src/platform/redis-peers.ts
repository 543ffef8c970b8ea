import type { Redis } from "ioredis";
import type { Logger } from "pino";
import { type ThrottledWarning, throttledWarnings } from "../domain/kernel/outages.ts";
import { type Grouped, grouped } from "../domain/kernel/flights.ts";
import type { ResubscribingPresence } from "./redis-connection.ts";
import { BEAT_EVERY_MS, LEASE_MS, type Peers, type Self } from "../domain/kernel/live-rooms.ts";

/** Maximum number of dead processes cleaned up per heartbeat. */
const DEAD_MAX = 16;
/** Maximum number of living processes returned at once. */
const LIVING_MAX = 10_000;
/** Counts of a player's sockets expire after this time without a change. */
const SOCKETS_TTL_SECONDS = 24 * 3_600;

const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)`;
/**
 * KEYS: leases, doors. ARGV: process, door, lease in ms, maximum number of dead ones. Returns whether the
 * lease was still held, and which processes are dead.
 */
const BEAT = `${NOW}
local until_ms = redis.call('ZSCORE', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
local dead = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. now, 'LIMIT', 0, ARGV[4])
return {until_ms and tonumber(until_ms) >= now and 1 or 0, dead}`;
/** KEYS: leases, doors. ARGV: process. Returns the door of a process with a valid lease. */
const DOOR = `${NOW}
local until_ms = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not until_ms or tonumber(until_ms) < now then return false end
return redis.call('HGET', KEYS[2], ARGV[1])`;
/** KEYS: leases. ARGV: maximum number. Returns processes with a valid lease. */
const LIVING = `${NOW}
return redis.call('ZRANGEBYSCORE', KEYS[1], now, '+inf', 'LIMIT', 0, ARGV[1])`;
/** KEYS: leases, doors. ARGV: process. Removes it unless it has renewed its lease meanwhile. */
const FORGET = `${NOW}
local until_ms = redis.call('ZSCORE', KEYS[1], ARGV[1])
if until_ms and tonumber(until_ms) >= now then return 0 end
redis.call('HDEL', KEYS[2], ARGV[1])
return redis.call('ZREM', KEYS[1], ARGV[1])`;
/**
 * KEYS: leases, then the counts of each player. ARGV: process, seconds to keep, then its count of each.
 * Counts of dead processes are removed.
 */
const SOCKETS = `${NOW}
local totals = {}
for k = 2, #KEYS do
  if ARGV[k + 1] == '0' then redis.call('HDEL', KEYS[k], ARGV[1])
  else
    redis.call('HSET', KEYS[k], ARGV[1], ARGV[k + 1])
    redis.call('EXPIRE', KEYS[k], ARGV[2])
  end
  local total = 0
  local counts = redis.call('HGETALL', KEYS[k])
  for i = 1, #counts, 2 do
    local until_ms = redis.call('ZSCORE', KEYS[1], counts[i])
    if counts[i] == ARGV[1] or (until_ms and tonumber(until_ms) >= now) then total = total + counts[i + 1]
    else redis.call('HDEL', KEYS[k], counts[i]) end
  end
  totals[k - 1] = total
end
return totals`;

type Scripted = Redis & {
  laurelSockets(keys: number, ...args: (string | number)[]): Promise<(string | number)[]>;
};

export type RedisPeersOptions = {
  namespace: string;
  log: Logger;
  /** This process's subscriptions to messages of the others. */
  subscriptions: Pick<ResubscribingPresence, "resubscribeAll" | "onReplaced">;
};

/** Registry of processes with leases by the clock of Redis, so that the machines' clocks do not matter. */
export class RedisPeers implements Peers {
  readonly #redis: Redis;
  readonly #options: RedisPeersOptions;
  readonly #warn: ThrottledWarning;
  readonly #keys: readonly [leases: string, doors: string];
  readonly #isListening: Grouped<string, boolean>;
  readonly #countSockets: Grouped<{ key: string; own: number }, number>;
  readonly #internalAddresses = new Map<string, Promise<string | undefined>>();
  #self: Self | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isBeating = false;

  constructor(redis: Redis, options: RedisPeersOptions) {
    this.#redis = redis;
    this.#options = options;
    this.#warn = throttledWarnings(options.log);
    this.#keys = [`${options.namespace}:processes:leases`, `${options.namespace}:processes:doors`];
    redis.defineCommand("laurelSockets", { lua: SOCKETS });
    const scripted = redis as Scripted;
    this.#isListening = grouped({
      run: async (processIds) => {
        // The connections of a killed process close at once, seconds before its lease ends.
        const channels = processIds.map((id) => `p:${id}`);
        const answer = (await redis.pubsub("NUMSUB", ...channels)) as (string | number)[];
        return processIds.map((_, n) => Number(answer[2 * n + 1]) > 0);
      },
    });
    // Counts of simultaneous joins share one round trip.
    this.#countSockets = grouped({
      run: async (players) => {
        const keys = [this.#keys[0], ...players.map(({ key }) => key)];
        const own = players.map((player) => player.own);
        const id = this.#self?.processId ?? "";
        return (await scripted.laurelSockets(keys.length, ...keys, id, SOCKETS_TTL_SECONDS, ...own)).map(
          Number,
        );
      },
    });
  }

  async join(self: Self): Promise<void> {
    this.#self = self;
    await this.#beat(self);
    // The process has left meanwhile.
    if (this.#self !== self) return;
    this.#timer = setInterval(() => void this.#beatSafely(), BEAT_EVERY_MS).unref();
    // Messages published during the outage are lost, whether or not the lease was. Connections come back one
    // by one.
    const onBack = (): void => void this.#beatSafely().then(() => this.#self?.onLost());
    this.#redis.on("ready", onBack);
    this.#options.subscriptions.onReplaced(onBack);
  }

  /** Whether a process is alive: its lease holds, and it listens to requests. */
  async isAlive(processId: string): Promise<boolean> {
    if ((await this.internalAddressOf(processId)) === undefined) return false;
    return this.#isListening(processId);
  }

  internalAddressOf(processId: string): Promise<string | undefined> {
    let internalAddress = this.#internalAddresses.get(processId);
    if (internalAddress === undefined) {
      internalAddress = this.#redis
        .eval(DOOR, this.#keys.length, ...this.#keys, processId)
        .then((found) => (typeof found === "string" ? found : undefined));
      // A failed read is repeated by the next caller.
      internalAddress.catch(() => this.#internalAddresses.delete(processId));
      this.#internalAddresses.set(processId, internalAddress);
    }
    return internalAddress;
  }

  async living(): Promise<string[]> {
    return (await this.#redis.eval(LIVING, 1, this.#keys[0], LIVING_MAX)) as string[];
  }

  countSockets(player: string, own: number): Promise<number> {
    return this.#countSockets({ key: `${this.#options.namespace}:sockets:${player}`, own });
  }

  resubscribe(): void {
    this.#options.subscriptions.resubscribeAll();
  }

  async leave(): Promise<void> {
    clearInterval(this.#timer);
    const self = this.#self;
    this.#self = undefined;
    if (!self) return;
    const [leases, doors] = this.#keys;
    await this.#redis
      .multi()
      .zrem(leases, self.processId)
      .hdel(doors, self.processId)
      .exec()
      .catch((err: unknown) => this.#options.log.warn({ err }, "this process could not be signed off"));
  }

  close(): void {
    this.#redis.disconnect();
  }

  async #beatSafely(): Promise<void> {
    const self = this.#self;
    if (self === undefined || this.#isBeating) return;
    this.#isBeating = true;
    try {
      if (!(await this.#beat(self))) self.onLost();
    } catch (err) {
      this.#warn(err, "this process could not renew its lease");
    } finally {
      this.#isBeating = false;
    }
  }

  /** Renews the lease and cleans up after dead processes. Returns false when the lease was no longer held. */
  async #beat(self: Self): Promise<boolean> {
    this.#internalAddresses.clear();
    const [wasHeld, dead] = (await this.#redis.eval(
      BEAT,
      this.#keys.length,
      ...this.#keys,
      self.processId,
      self.internalAddress,
      LEASE_MS,
      DEAD_MAX,
    )) as [number, string[]];
    for (const processId of dead) void this.#sweep(self, processId);
    return wasHeld === 1;
  }

  /**
   * One process at a time cleans up after a dead one; should it die too, the next one does so in LEASE_MS.
   */
  async #sweep(self: Self, processId: string): Promise<void> {
    const { log, namespace } = this.#options;
    try {
      const key = `${namespace}:processes:sweep:${processId}`;
      if ((await this.#redis.set(key, self.processId, "PX", LEASE_MS, "NX")) !== "OK") return;
      await self.onDead(processId);
      await this.#redis.eval(FORGET, this.#keys.length, ...this.#keys, processId);
    } catch (err) {
      log.warn({ err, processId }, "what a dead process has left could not be cleaned up");
    }
  }
}
