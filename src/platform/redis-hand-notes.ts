import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import type { HandNotes } from "../domain/progression/in-hand.ts";

/** How long a process that is not heard of counts as alive, in ms; workers look several times as often. */
export const HAND_LEASE_MS = 2_000;
/** How long notes are kept while no process looks at them, in ms. */
const KEPT_MS = 24 * 3_600_000;

const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)`;
/**
 * KEYS: leases, notes. ARGV: process, its note, lease and time to keep in ms. Renews the lease, and returns
 * for each other process its id, its note and whether its lease is over.
 */
const LOOK = `${NOW}
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
if ARGV[2] == '' then redis.call('HDEL', KEYS[2], ARGV[1])
else redis.call('HSET', KEYS[2], ARGV[1], ARGV[2]) end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[4]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[4])
local notes = redis.call('HGETALL', KEYS[2])
local answer = {}
for i = 1, #notes, 2 do
  if notes[i] ~= ARGV[1] then
    local until_ms = redis.call('ZSCORE', KEYS[1], notes[i])
    local is_dead = (not until_ms or tonumber(until_ms) < now) and 1 or 0
    table.insert(answer, {notes[i], notes[i + 1], is_dead})
  end
end
return answer`;
/** KEYS: leases, notes. ARGV: processes and their notes, in turn. Removes notes that are still the same. */
const FORGET = `
for i = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[2], ARGV[i]) == ARGV[i + 1] then redis.call('HDEL', KEYS[2], ARGV[i]) end
end`;

/**
 * Creates the notes of a process beside those of others, in Redis. A note is written to the socket before the
 * call returns, and nobody waits for the answer; what an outage has lost is written again with the next look.
 */
export const createRedisHandNotes = (redis: Redis, namespace: string): HandNotes => {
  const processId = randomUUID();
  const keys = [`${namespace}:in-hand:leases`, `${namespace}:in-hand:notes`] as const;
  let own = "";
  let isClosed = false;
  return {
    note: (text) => {
      own = text;
      if (isClosed || redis.status !== "ready") return;
      const sent = text === "" ? redis.hdel(keys[1], processId) : redis.hset(keys[1], processId, text);
      sent.catch(() => undefined);
    },
    look: async () => {
      if (isClosed) return [];
      const args = [processId, own, HAND_LEASE_MS, KEPT_MS];
      const found = (await redis.eval(LOOK, keys.length, ...keys, ...args)) as [string, string, number][];
      return found.map(([id, text, isDead]) => ({ id, text, isDead: isDead === 1 }));
    },
    forget: async (notes) => {
      if (notes.length === 0) return;
      await redis.eval(FORGET, keys.length, ...keys, ...notes.flatMap(({ id, text }) => [id, text]));
    },
    close: async () => {
      isClosed = true;
      if (redis.status !== "ready") return;
      await redis.multi().hdel(keys[1], processId).zrem(keys[0], processId).exec();
    },
  };
};
