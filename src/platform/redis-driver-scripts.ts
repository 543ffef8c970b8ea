import type { Redis } from "ioredis";

/** Number of names read per step. */
const STEP = 500;

type Scanned = { key: string; isHash: boolean };

/** Reads members of a set or names of a hash, `max` at most; in steps, so that Redis is never blocked. */
export const scanNames = async (redis: Redis, { key, isHash }: Scanned, max: number): Promise<string[]> => {
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
export const roomScripts = (redis: Redis, key: string) => {
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
