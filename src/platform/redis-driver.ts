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
import type { ListingFilter } from "../domain/kernel/live-rooms.ts";
import { type Grouped, grouped } from "../domain/kernel/flights.ts";
import { outageOf } from "../domain/kernel/outages.ts";

/** Number of names read per step. */
const STEP = 500;

type Scanned = { key: string; isHash: boolean };

/** Reads members of a set or names of a hash, `max` at most; in steps, so that Redis is never blocked. */
const scanNames = async (redis: Redis, { key, isHash }: Scanned, max: number): Promise<string[]> => {
  const names = new Set<string>();
  let cursor = "0";
  do {
    const [next, found] = isHash
      ? await redis.hscan(key, cursor, "COUNT", STEP)
      : await redis.sscan(key, cursor, "COUNT", STEP);
    // A hash is read as alternating names and values.
    for (let i = 0; i < found.length; i += isHash ? 2 : 1) names.add(found[i]!);
    cursor = next;
  } while (cursor !== "0" && names.size < max);
  return [...names].slice(0, max);
};

/** KEYS: listings, then the indexes of the room. ARGV: room id, listing. */
const INSERT = `
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
for i = 2, #KEYS do redis.call('SADD', KEYS[i], ARGV[1]) end
return 1`;
/**
 * KEYS: listings. ARGV: room id, listing and process of each. Returns which were held by that process: an
 * update never restores a removed listing, and another process's listing under the id stays as it is.
 */
const UPDATE = `
local done = {}
for i = 1, #ARGV, 3 do
  local held = redis.call('HGET', KEYS[1], ARGV[i])
  if held and cjson.decode(held).processId == ARGV[i + 2] then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
    done[#done + 1] = 1
  else
    done[#done + 1] = 0
  end
end
return done`;
/** KEYS: listings, then the indexes of the room. ARGV: room id, process whose listing is meant. */
const REMOVE = `
local held = redis.call('HGET', KEYS[1], ARGV[1])
if not held or cjson.decode(held).processId ~= ARGV[2] then return 0 end
for i = 2, #KEYS do redis.call('SREM', KEYS[i], ARGV[1]) end
return redis.call('HDEL', KEYS[1], ARGV[1])`;
/** KEYS: listings, an index of few rooms. Returns their listings. */
const LISTED = `
local ids = redis.call('SMEMBERS', KEYS[2])
if #ids == 0 then return {} end
local found = {}
for _, listing in ipairs(redis.call('HMGET', KEYS[1], unpack(ids))) do
  if listing then found[#found + 1] = listing end
end
return found`;

type Script<T> = (keys: number, ...args: string[]) => Promise<T>;
type Scripted = Redis & {
  laurelInsertRoom: Script<number>;
  laurelUpdateRooms: Script<number[]>;
  laurelRemoveRoom: Script<number>;
  laurelListedRooms: Script<string[]>;
};

/** A listing in serialized form; `indexes` are the sets by which it is found. */
export type Entry = { roomId: string; processId: string; listing: string; indexes: readonly string[] };

/** Scripts that change listings in Redis atomically. @param key of the hash of all listings */
const roomScripts = (redis: Redis, key: string) => {
  for (const [name, lua] of Object.entries({
    laurelInsertRoom: INSERT,
    laurelUpdateRooms: UPDATE,
    laurelRemoveRoom: REMOVE,
    laurelListedRooms: LISTED,
  }))
    redis.defineCommand(name, { lua });
  const scripted = redis as Scripted;
  return {
    /** @returns whether the id was free */
    insert: async ({ roomId, listing, indexes }: Entry): Promise<boolean> =>
      (await scripted.laurelInsertRoom(1 + indexes.length, key, ...indexes, roomId, listing)) === 1,
    update: async (entries: readonly Entry[]): Promise<boolean[]> => {
      const values = entries.flatMap(({ roomId, listing, processId }) => [roomId, listing, processId]);
      return (await scripted.laurelUpdateRooms(1, key, ...values)).map((done) => done === 1);
    },
    remove: async ({ roomId, processId, indexes }: Entry): Promise<boolean> =>
      (await scripted.laurelRemoveRoom(1 + indexes.length, key, ...indexes, roomId, processId)) === 1,
    /** Returns the listings of an index, which must be one of few rooms. */
    listed: (index: string): Promise<string[]> => scripted.laurelListedRooms(2, key, index),
  };
};

type Search = { key: string; conditions: Conditions };
type Conditions = Partial<IRoomCache> & Record<string, unknown>;
type Operations = Partial<{ $set: Partial<IRoomCache>; $inc: Partial<IRoomCache> }>;

/** Number of rooms read per command. */
const READ_MAX = 500;
/** Fields of a listing itself; the other fields of look-ups are in its metadata. */
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

const fingerprint = (fields: readonly (readonly [string, unknown])[]): string => {
  const sorted = fields.toSorted(([a], [b]) => (a < b ? -1 : 1));
  return createHash("sha256").update(JSON.stringify(sorted)).digest("base64url").slice(0, 22);
};

const valueOf = (room: IRoomCache, field: string): unknown => {
  if (Object.hasOwn(room, field)) return room[field as keyof IRoomCache];
  const metadata = room.metadata as Record<string, unknown> | undefined;
  return metadata && Object.hasOwn(metadata, field) ? metadata[field] : undefined;
};

const roomOf = (listing: string): IRoomCache =>
  initializeRoomCache(JSON.parse(listing) as Partial<IRoomCache>);

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

const meets =
  (conditions: Conditions) =>
  (room: IRoomCache): boolean =>
    Object.entries(conditions).every(([field, value]) => valueOf(room, field) === value);

/** Returns the listing of an open room of this process. */
const listingHere = (roomId: string): IRoomCache | undefined => {
  const room = matchMaker.getLocalRoomById(roomId) as Room | undefined;
  return room?.["_internalState"] === RoomInternalState.CREATED ? room["_listing"] : undefined;
};

/** Core's representation of a missing room. */
const NONE = undefined as unknown as IRoomCache;

type RedisDriverOptions = {
  /** Separates installations that share a Redis. */
  namespace: string;
  /** The id of this driver's process. */
  ownProcess?: () => string;
  /** Whether a process is alive; rooms of dead ones are not found. */
  isAlive?: (processId: string) => Promise<boolean>;
};

/**
 * The listing of rooms over all processes. Unlike the driver it extends it inserts atomically, so that one of
 * two rooms with one id wins, and never touches another process's listing under the same id; looks rooms up
 * by their join fields, by name or by process without reading the others; removes the rooms of dead processes
 * where it comes across them; and keeps no shared promise that one failed read would poison.
 */
export class IndexedRedisDriver extends RedisDriver {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #ownProcess: () => string;
  readonly #isAlive: (processId: string) => Promise<boolean>;
  readonly #scripts: ReturnType<typeof roomScripts>;
  /** Simultaneous writes and look-ups share one round trip. */
  readonly #write: Grouped<IRoomCache, boolean>;
  readonly #find: Grouped<Search, IRoomCache[]>;
  /** Whether to create a room here although one of the listed rooms could be joined. */
  maySpread: (listed: readonly IRoomCache[]) => Promise<boolean> = async () => false;

  constructor(redis: Redis, options: RedisDriverOptions) {
    super(redis);
    this.#redis = redis;
    this.#key = `${options.namespace}:rooms`;
    this.#ownProcess = options.ownProcess ?? (() => matchMaker.processId);
    this.#isAlive = options.isAlive ?? (async () => true);
    this.#scripts = roomScripts(redis, this.#key);
    this.#write = grouped({ run: (rooms) => this.#writeAll(rooms) });
    this.#find = grouped({
      keyOf: ({ key }) => key,
      run: async (searches) => {
        const listed = await this.#candidates(searches[0]!.conditions);
        return searches.map(() => listed);
      },
    });
  }

  override async has(roomId: string): Promise<boolean> {
    return (await this.#redis.hexists(this.#key, roomId)) === 1;
  }

  /** Lists a room unless its id is taken, even if only by a room of this process whose listing was lost. */
  async insert(room: IRoomCache): Promise<boolean> {
    const held = listingHere(room.roomId);
    if (held && held !== room) {
      await this.#scripts.insert(this.#entry(held));
      return false;
    }
    return this.#scripts.insert(this.#entry(room));
  }

  /** Lists a room again, which must not replace another one that has taken its id meanwhile. */
  override async persist(room: IRoomCache, create = false): Promise<boolean> {
    if (!room.roomId) return false;
    return create ? this.insert(room) : this.#write(room);
  }

  override async update(room: IRoomCache, { $set = {}, $inc = {} }: Operations): Promise<boolean> {
    Object.assign(room, $set);
    const counters = room as unknown as Record<string, number>;
    for (const [field, by] of Object.entries($inc)) counters[field] = (counters[field] ?? 0) + (by as number);
    return this.#write(room);
  }

  /**
   * Removes the listing of a room of this process. During an outage it stays until the listings are compared
   * with the rooms again: core ignores this promise at one place and aborts a room's disposal at another.
   */
  override async remove(roomId: string): Promise<boolean> {
    try {
      return await this.#removeOwn(roomId);
    } catch (error) {
      if (outageOf(error) === undefined) throw error;
      return false;
    }
  }

  async #removeOwn(roomId: string): Promise<boolean> {
    const room = roomId ? (await this.findByIds([roomId])).get(roomId) : undefined;
    if (room?.processId !== this.#ownProcess()) return false;
    return this.#scripts.remove(this.#entry(room));
  }

  async ownIds(): Promise<Set<string>> {
    return new Set(await this.#redis.smembers(this.#processKey(this.#ownProcess())));
  }

  async countOf(projectId: string): Promise<number> {
    return this.#redis.scard(this.#projectKey(projectId));
  }

  /** Returns a superset of the rooms that match the filter, `max` of them at most. */
  async some({ name, projectId, processId }: ListingFilter, max: number): Promise<IRoomCache[]> {
    let key = name && this.#nameKey(name);
    if (processId) key = this.#processKey(processId);
    if (projectId) key = this.#projectKey(projectId);
    const ids = await scanNames(this.#redis, { key: key ?? this.#key, isHash: !key }, max);
    return [...(await this.findByIds(ids)).values()];
  }

  override async findByIds(roomIds: string[]): Promise<Map<string, IRoomCache>> {
    const found = new Map<string, IRoomCache>();
    for (let i = 0; i < roomIds.length; i += READ_MAX) {
      const ids = roomIds.slice(i, i + READ_MAX);
      for (const listing of await this.#redis.hmget(this.#key, ...ids)) {
        if (listing === null) continue;
        const room = roomOf(listing);
        found.set(room.roomId, room);
      }
    }
    return found;
  }

  override async query(conditions: Conditions = {}, sort?: SortOptions): Promise<IRoomCache[]> {
    const rooms = (await this.#candidates(conditions)).filter(meets(conditions));
    return sort ? rooms.toSorted(compareBy(sort)) : rooms;
  }

  /**
   * Returns the first room that meets the conditions and whose process is alive, or undefined; without `sort`
   * those of this process come first, because their sockets need no pipe.
   */
  override async findOne(conditions: Conditions, sort?: SortOptions): Promise<IRoomCache> {
    const listed = await this.#find({ key: JSON.stringify(conditions), conditions });
    const own = this.#ownProcess();
    // A look-up by id means that very room.
    const mayMakeOne = conditions.roomId === undefined ? this.maySpread : async () => false;
    const isElsewhere = ({ processId }: IRoomCache): number => (processId === own ? 0 : 1);
    const byProcess = (a: IRoomCache, b: IRoomCache): number => isElsewhere(a) - isElsewhere(b);
    // Core passes an order without fields for kinds of room that ask for none.
    const order = sort && Object.keys(sort).length > 0 ? compareBy(sort) : byProcess;
    for (const room of listed.filter(meets(conditions)).toSorted(order)) {
      if (room.processId === own) return room;
      if (await this.#isAlive(room.processId)) return (await mayMakeOne(listed)) ? NONE : room;
      await this.#scripts.remove(this.#entry(room));
    }
    return NONE;
  }

  /** Removes the listings of a process, but not of another living one: core calls this after a timeout. */
  override async cleanup(processId: string): Promise<void> {
    if (processId !== this.#ownProcess() && (await this.#isAlive(processId))) return;
    const ids = await this.#redis.smembers(this.#processKey(processId));
    for (const room of (await this.findByIds(ids)).values()) {
      if (room.processId === processId) await this.#scripts.remove(this.#entry(room));
    }
    await this.#redis.del(this.#processKey(processId));
  }

  override async clear(): Promise<void> {
    for (const room of await this.query()) await this.#scripts.remove(this.#entry(room));
  }

  override async shutdown(): Promise<void> {
    await this.#redis.quit().catch(() => this.#redis.disconnect());
  }

  async #candidates(conditions: Conditions): Promise<IRoomCache[]> {
    const { roomId, name, processId } = conditions;
    const fields = Object.entries(conditions).filter(([field]) => !OWN_FIELDS.has(field));
    if (roomId === undefined && name !== undefined && fields.length > 0)
      return (await this.#scripts.listed(this.#fieldsKey(name, fields))).map(roomOf);
    let index = processId === undefined ? undefined : this.#processKey(processId);
    if (name !== undefined) index = this.#nameKey(name);
    const read = () => (index === undefined ? this.#redis.hkeys(this.#key) : this.#redis.smembers(index));
    return [...(await this.findByIds(roomId === undefined ? await read() : [roomId])).values()];
  }

  /** Writes the current state of each listing once, however many changes were requested. */
  async #writeAll(rooms: readonly IRoomCache[]): Promise<boolean[]> {
    const listings = [...new Set(rooms)].filter(({ roomId }) => roomId);
    if (listings.length === 0) return rooms.map(() => false);
    const done = await this.#scripts.update(listings.map((room) => this.#entry(room)));
    const isDone = new Map(listings.map((room, n) => [room, done[n]!]));
    return rooms.map((room) => isDone.get(room) ?? false);
  }

  #entry(room: IRoomCache): Entry {
    const { roomId, processId } = room;
    return { roomId, processId, listing: JSON.stringify(room), indexes: this.#indexes(room) };
  }

  /**
   * The field index holds a room by all of its metadata, which is what clients join rooms of its name with.
   */
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
}
