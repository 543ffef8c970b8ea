import { createHash } from "node:crypto";
import {
  initializeRoomCache,
  type IRoomCache,
  matchMaker,
  type Room,
  RoomInternalState,
  type SortOptions,
} from "@colyseus/core";
import { RedisDriver } from "@colyseus/redis-driver";
import type { Redis } from "ioredis";

type Conditions = Partial<IRoomCache> & Record<string, unknown>;
type Operations = Partial<{ $set: Partial<IRoomCache>; $inc: Partial<IRoomCache> }>;

/** Rooms read in one command. */
const READ_MAX = 500;
/** Fields of a listing itself; the others that rooms are looked up by are in its metadata. */
const OWN_FIELDS = new Set([
  "roomId",
  "name",
  "processId",
  "locked",
  "private",
  "unlisted",
  "clients",
  "maxClients",
]);

/** KEYS: listings, then the indexes of the room. ARGV: room id, listing. */
const INSERT = `
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
for i = 2, #KEYS do redis.call('SADD', KEYS[i], ARGV[1]) end
return 1`;
/** What another process lists under this id stays as it is. ARGV[3]: the process whose listing is meant. */
const IF_HELD = `
local held = redis.call('HGET', KEYS[1], ARGV[1])
if not held or cjson.decode(held).processId ~= ARGV[3] then return 0 end`;
/** An update never brings a removed listing back. */
const UPDATE = `${IF_HELD}
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1`;
const REMOVE = `${IF_HELD}
for i = 2, #KEYS do redis.call('SREM', KEYS[i], ARGV[1]) end
return redis.call('HDEL', KEYS[1], ARGV[1])`;

const fingerprint = (fields: readonly (readonly [string, unknown])[]): string => {
  const sorted = fields.toSorted(([a], [b]) => (a < b ? -1 : 1));
  return createHash("sha256").update(JSON.stringify(sorted)).digest("base64url").slice(0, 22);
};

const valueOf = (room: IRoomCache, field: string): unknown => {
  if (Object.hasOwn(room, field)) return room[field as keyof IRoomCache];
  const metadata = room.metadata as Record<string, unknown> | undefined;
  return metadata && Object.hasOwn(metadata, field) ? metadata[field] : undefined;
};

const isAscending = (order: SortOptions[string]): boolean =>
  order === 1 || order === "asc" || order === "ascending";

const compareBy =
  (sort: SortOptions) =>
  (a: IRoomCache, b: IRoomCache): number => {
    for (const [field, order] of Object.entries(sort)) {
      const [x, y] = [valueOf(a, field) as number, valueOf(b, field) as number];
      if (x !== y) return x > y === isAscending(order) ? 1 : -1;
    }
    return 0;
  };

/** The listing of an open room of this process. */
const listingHere = (roomId: string): IRoomCache | undefined => {
  const room = matchMaker.getLocalRoomById(roomId) as Room | undefined;
  return room?.["_internalState"] === RoomInternalState.CREATED ? room["_listing"] : undefined;
};

export type RedisDriverOptions = {
  /** Separates installations that share a Redis. */
  namespace: string;
  /** The process that this driver belongs to. */
  ownProcess?: () => string;
  /** Rooms of a process that does not live are not found. */
  isAlive?: (processId: string) => Promise<boolean>;
};

/**
 * The listing of rooms over all processes. Unlike the driver it extends it inserts atomically, so that one
 * of two rooms with one id wins, and never touches what another process lists under the same id; looks rooms
 * up by the fields they are joined with, by name or by process without reading the others; drops the rooms
 * of the dead where they are looked for; and keeps no shared promise that one failed read would poison.
 */
export class IndexedRedisDriver extends RedisDriver {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #ownProcess: () => string;
  readonly #isAlive: (processId: string) => Promise<boolean>;

  constructor(redis: Redis, options: RedisDriverOptions) {
    super(redis);
    this.#redis = redis;
    this.#key = `${options.namespace}:rooms`;
    this.#ownProcess = options.ownProcess ?? (() => matchMaker.processId);
    this.#isAlive = options.isAlive ?? (async () => true);
  }

  override async has(roomId: string): Promise<boolean> {
    return (await this.#redis.hexists(this.#key, roomId)) === 1;
  }

  /** Records a room unless its id is taken, if only by a room of this process whose listing was lost. */
  async insert(room: IRoomCache): Promise<boolean> {
    const held = listingHere(room.roomId);
    if (held && held !== room) {
      await this.#run(INSERT, held, this.#indexes(held));
      return false;
    }
    return (await this.#run(INSERT, room, this.#indexes(room))) === 1;
  }

  /** Lists a room again, which must not push out another one that has taken its id meanwhile. */
  override async persist(room: IRoomCache, create = false): Promise<boolean> {
    if (!room.roomId) return false;
    return create ? this.insert(room) : (await this.#run(UPDATE, room)) === 1;
  }

  override async update(room: IRoomCache, { $set = {}, $inc = {} }: Operations): Promise<boolean> {
    Object.assign(room, $set);
    const counters = room as unknown as Record<string, number>;
    for (const [field, by] of Object.entries($inc)) counters[field] = (counters[field] ?? 0) + (by as number);
    return (await this.#run(UPDATE, room)) === 1;
  }

  /** Takes away the listing of a room of this process. */
  override async remove(roomId: string): Promise<boolean> {
    const room = roomId ? (await this.findByIds([roomId])).get(roomId) : undefined;
    if (room?.processId !== this.#ownProcess()) return false;
    return (await this.#run(REMOVE, room, this.#indexes(room))) === 1;
  }

  async ownIds(): Promise<Set<string>> {
    return new Set(await this.#redis.smembers(this.#processKey(this.#ownProcess())));
  }

  async countOf(projectId: string): Promise<number> {
    return this.#redis.scard(this.#projectKey(projectId));
  }

  override async findByIds(roomIds: string[]): Promise<Map<string, IRoomCache>> {
    const found = new Map<string, IRoomCache>();
    for (let i = 0; i < roomIds.length; i += READ_MAX) {
      const ids = roomIds.slice(i, i + READ_MAX);
      for (const listing of await this.#redis.hmget(this.#key, ...ids)) {
        if (listing === null) continue;
        const room = initializeRoomCache(JSON.parse(listing) as Partial<IRoomCache>);
        found.set(room.roomId, room);
      }
    }
    return found;
  }

  override async query(conditions: Conditions = {}, sort?: SortOptions): Promise<IRoomCache[]> {
    const wanted = Object.entries(conditions);
    const candidates = await this.findByIds(await this.#candidates(conditions));
    const rooms = [...candidates.values()].filter((room) =>
      wanted.every(([field, value]) => valueOf(room, field) === value),
    );
    return sort ? rooms.toSorted(compareBy(sort)) : rooms;
  }

  /** The first room that meets the conditions and whose process lives, or undefined. */
  override async findOne(conditions: Conditions, sort?: SortOptions): Promise<IRoomCache> {
    for (const room of await this.query(conditions, sort)) {
      if (room.processId === this.#ownProcess() || (await this.#isAlive(room.processId))) return room;
      await this.#run(REMOVE, room, this.#indexes(room));
    }
    return undefined as unknown as IRoomCache;
  }

  /** Takes the listings of a process away; not those of another that lives: core asks after a time-out. */
  override async cleanup(processId: string): Promise<void> {
    if (processId !== this.#ownProcess() && (await this.#isAlive(processId))) return;
    const ids = await this.#redis.smembers(this.#processKey(processId));
    for (const room of (await this.findByIds(ids)).values()) {
      if (room.processId === processId) await this.#run(REMOVE, room, this.#indexes(room));
    }
    await this.#redis.del(this.#processKey(processId));
  }

  override async clear(): Promise<void> {
    for (const room of await this.query()) await this.#run(REMOVE, room, this.#indexes(room));
  }

  override async shutdown(): Promise<void> {
    await this.#redis.quit().catch(() => this.#redis.disconnect());
  }

  async #candidates(conditions: Conditions): Promise<string[]> {
    const { roomId, name, processId } = conditions;
    if (roomId !== undefined) return [roomId];
    if (name !== undefined) {
      const fields = Object.entries(conditions).filter(([field]) => !OWN_FIELDS.has(field));
      return this.#redis.smembers(fields.length > 0 ? this.#fieldsKey(name, fields) : this.#nameKey(name));
    }
    return processId === undefined
      ? this.#redis.hkeys(this.#key)
      : this.#redis.smembers(this.#processKey(processId));
  }

  /** The field index knows a room by all of its metadata, which is what rooms of its name are joined with. */
  #indexes(room: IRoomCache): string[] {
    const fields = Object.entries((room.metadata ?? {}) as Record<string, unknown>);
    const projectId: unknown = (room.metadata as Record<string, unknown> | undefined)?.["projectId"];
    return [
      this.#nameKey(room.name),
      this.#processKey(room.processId),
      this.#fieldsKey(room.name, fields),
      ...(typeof projectId === "string" ? [this.#projectKey(projectId)] : []),
    ];
  }

  #projectKey(projectId: string): string {
    return `${this.#key}:project:${projectId}`;
  }

  #nameKey(name: string): string {
    return `${this.#key}:name:${name}`;
  }

  #processKey(processId: string): string {
    return `${this.#key}:process:${processId}`;
  }

  #fieldsKey(name: string, fields: [string, unknown][]): string {
    return `${this.#key}:fields:${name}:${fingerprint(fields)}`;
  }

  async #run(script: string, room: IRoomCache, indexes: readonly string[] = []): Promise<unknown> {
    const keys = [this.#key, ...indexes];
    const values = [room.roomId, JSON.stringify(room), room.processId];
    return this.#redis.eval(script, keys.length, ...keys, ...values);
  }
}
