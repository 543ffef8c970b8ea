/**
 * The scripts of redis-ranks.ts. KEYS[1] is always `{…}:cur`, the id of the generation that serves reads;
 * `{…}:next` is the id of one being built. A generation `g` is `{…}:g:z` (sorted set of `tie:player` by
 * score) and `{…}:g:h` (hash of player to `version:tie`); a generation whose id starts with "d" also keeps
 * `{…}:g:d` (sorted set of distinct scores) and `{…}:g:c` (hash of score to holders). `{…}:g:t` (hash of
 * player to version) has the hidden entries. All names share KEYS[1]'s hash tag, and so one slot.
 */
const NAMES = `
local base = string.sub(KEYS[1], 1, -5)
local nextKey = base .. ':next'
local function partsOf(gen)
  local g = base .. ':' .. gen
  return g .. ':z', g .. ':h', g .. ':d', g .. ':c', g .. ':t'
end
local function forget(gen) if gen then redis.call('UNLINK', partsOf(gen)) end end
local function endLater(gen)
  for _, key in ipairs({ partsOf(gen) }) do redis.call('PEXPIRE', key, 600000) end
end`;

/**
 * Sets entries from ARGV[first] on, four each: player, score (empty: hidden), tie, version. An older or equal
 * version is ignored.
 */
const SET = `
local function leave(gen, score)
  local _, _, d, c = partsOf(gen)
  if redis.call('HINCRBY', c, score, -1) > 0 then return end
  redis.call('HDEL', c, score)
  redis.call('ZREM', d, score)
end
local function enter(gen, score)
  local _, _, d, c = partsOf(gen)
  if redis.call('HINCRBY', c, score, 1) == 1 then redis.call('ZADD', d, score, score) end
end
local function setEntry(gen, player, score, tie, version)
  local z, h, _, _, t = partsOf(gen)
  local hidden = redis.call('HGET', t, player)
  if hidden and tonumber(hidden) >= tonumber(version) then return end
  local isDense = string.sub(gen, 1, 1) == 'd'
  local old = redis.call('HGET', h, player)
  if old then
    local colon = string.find(old, ':', 1, true)
    if tonumber(string.sub(old, 1, colon - 1)) >= tonumber(version) then return end
    local member = string.sub(old, colon + 1) .. ':' .. player
    if isDense then leave(gen, redis.call('ZSCORE', z, member)) end
    redis.call('ZREM', z, member)
  end
  if score == '' then
    redis.call('HDEL', h, player)
    redis.call('HSET', t, player, version)
    return
  end
  if hidden then redis.call('HDEL', t, player) end
  redis.call('ZADD', z, score, tie .. ':' .. player)
  redis.call('HSET', h, player, version .. ':' .. tie)
  if isDense then enter(gen, score) end
end
local function setEntries(gen, first)
  for i = first, #ARGV, 4 do setEntry(gen, ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]) end
end`;

/** ARGV: entries. Writes to what is read and to what is being built; to nothing when there is neither. */
export const APPLY = `${NAMES}${SET}
local cur = redis.call('GET', KEYS[1])
if cur then setEntries(cur, 1) end
local nxt = redis.call('GET', nextKey)
if nxt then
  setEntries(nxt, 1)
  endLater(nxt)
end`;

/** ARGV: generation, lease ms. Opens a build; 0 when another one is open. A client may send it twice. */
export const BEGIN = `${NAMES}
redis.call('SET', nextKey, ARGV[1], 'NX', 'PX', ARGV[2])
return redis.call('GET', nextKey) == ARGV[1] and 1 or 0`;

/**
 * ARGV: generation, lease ms, entries. Writes a page of the truth to the build and extends its lease; 0
 * when the lease was lost. The keys of a build end after ten minutes without a write, in case their builder
 * dies.
 */
export const LOAD = `${NAMES}${SET}
if redis.call('GET', nextKey) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', nextKey, ARGV[2])
setEntries(ARGV[1], 3)
endLater(ARGV[1])
return 1`;

/** ARGV: generation. The build becomes what is read, and what was read goes; 0 when the lease was lost. */
export const SWITCH = `${NAMES}
if redis.call('GET', nextKey) ~= ARGV[1] then return 0 end
forget(redis.call('GET', KEYS[1]))
for _, key in ipairs({ partsOf(ARGV[1]) }) do redis.call('PERSIST', key) end
redis.call('SET', KEYS[1], ARGV[1])
redis.call('DEL', nextKey)
return 1`;

/** ARGV: generation. Gives a build up, unless it is read already: the answer to SWITCH may have been lost. */
export const ABANDON = `${NAMES}
if redis.call('GET', KEYS[1]) == ARGV[1] then return end
if redis.call('GET', nextKey) == ARGV[1] then redis.call('DEL', nextKey) end
forget(ARGV[1])`;

export const DROP = `${NAMES}
forget(redis.call('GET', KEYS[1]))
forget(redis.call('GET', nextKey))
redis.call('UNLINK', KEYS[1], nextKey)`;

/**
 * ARGV: ties, offset, limit, player. Without a player the page at `offset`; with one and a limit of 0 his
 * own standing, else the window around him. Answers nil when there is no generation that can say (none,
 * none with distinct scores, or one whose keys were partly evicted), else total, position and rank of the
 * first, and member, score, member, score…; total -1 when the player has no entry.
 */
export const READ = `${NAMES}
local cur = redis.call('GET', KEYS[1])
local ties, start, limit, player = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
if not cur or (ties == 'DENSE' and string.sub(cur, 1, 1) ~= 'd') then return nil end
local z, h, d, c = partsOf(cur)
local total = redis.call('ZCARD', z)
if total ~= redis.call('HLEN', h) or redis.call('ZCARD', d) ~= redis.call('HLEN', c) then return nil end
if player ~= '' then
  local held = redis.call('HGET', h, player)
  if not held then return { -1, 0, 0, {} } end
  local member = string.sub(held, string.find(held, ':', 1, true) + 1) .. ':' .. player
  local position = redis.call('ZRANK', z, member)
  if limit == 0 then
    start, limit = position, 1
  else
    start = math.max(0, math.min(position - math.floor((limit - 1) / 2), total - limit))
  end
end
local page = redis.call('ZRANGE', z, start, start + limit - 1, 'WITHSCORES')
local rank = start + 1
if #page > 0 and ties == 'SHARED' then rank = 1 + redis.call('ZCOUNT', z, '-inf', '(' .. page[2]) end
if #page > 0 and ties == 'DENSE' then rank = 1 + redis.call('ZCOUNT', d, '-inf', '(' .. page[2]) end
return { total, start, rank, page }`;
