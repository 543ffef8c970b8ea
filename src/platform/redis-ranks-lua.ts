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
 * Sets entries from ARGV[first] on, four values each: player, score (empty: hidden), tie, version. An older
 * or equal version is ignored. Returns the range of scores in which ranks have changed, if any (boards/ranks.ts).
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
  local was
  local old = redis.call('HGET', h, player)
  if old then
    local colon = string.find(old, ':', 1, true)
    if tonumber(string.sub(old, 1, colon - 1)) >= tonumber(version) then return end
    local member = string.sub(old, colon + 1) .. ':' .. player
    was = redis.call('ZSCORE', z, member)
    if isDense then leave(gen, was) end
    redis.call('ZREM', z, member)
  end
  if score == '' then
    redis.call('HDEL', h, player)
    redis.call('HSET', t, player, version)
    if was then return tonumber(was), math.huge end
    return
  end
  if hidden then redis.call('HDEL', t, player) end
  redis.call('ZADD', z, score, tie .. ':' .. player)
  redis.call('HSET', h, player, version .. ':' .. tie)
  if isDense then enter(gen, score) end
  local now = tonumber(score)
  if not was then return old and -math.huge or now, math.huge end
  return math.min(tonumber(was), now), isDense and math.huge or math.max(tonumber(was), now)
end
local function setEntries(gen, first)
  local from, to
  for i = first, #ARGV, 4 do
    local low, high = setEntry(gen, ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
    if low then from, to = math.min(from or low, low), math.max(to or high, high) end
  end
  return from, to
end`;

/**
 * ARGV: entries. Writes to the generation that is read and to the one being built; to nothing when there is
 * neither. Returns the two scores between which ranks have changed as text, nothing when none have.
 */
export const APPLY = `${NAMES}${SET}
local cur = redis.call('GET', KEYS[1])
local from, to = -math.huge, math.huge
if cur then
  from, to = setEntries(cur, 1)
  redis.call('PERSIST', KEYS[1])
end
local nxt = redis.call('GET', nextKey)
if nxt then
  setEntries(nxt, 1)
  endLater(nxt)
end
if from then return { string.format('%.17g', from), string.format('%.17g', to) } end`;

/**
 * ARGV: generation, lease ms. Opens a build; returns 0 when another one is open. A client may send it twice.
 */
export const BEGIN = `${NAMES}
redis.call('SET', nextKey, ARGV[1], 'NX', 'PX', ARGV[2])
return redis.call('GET', nextKey) == ARGV[1] and 1 or 0`;

/**
 * ARGV: generation, lease ms, entries. Writes a page of committed entries to the build and extends its lease;
 * returns 0 when the lease was lost. The keys of a build expire after ten minutes without a write, in case
 * their builder dies.
 */
export const LOAD = `${NAMES}${SET}
if redis.call('GET', nextKey) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', nextKey, ARGV[2])
setEntries(ARGV[1], 3)
endLater(ARGV[1])
return 1`;

/**
 * ARGV: generation. Switches reads to the build and removes the previous generation; returns 0 when the lease
 * was lost. An empty one is forgotten after ten minutes unless an entry is set: anybody may ask for lists in
 * which nobody has scored.
 */
export const SWITCH = `${NAMES}
if redis.call('GET', nextKey) ~= ARGV[1] then return 0 end
forget(redis.call('GET', KEYS[1]))
for _, key in ipairs({ partsOf(ARGV[1]) }) do redis.call('PERSIST', key) end
redis.call('SET', KEYS[1], ARGV[1])
if redis.call('EXISTS', partsOf(ARGV[1])) == 0 then redis.call('PEXPIRE', KEYS[1], 600000) end
redis.call('DEL', nextKey)
return 1`;

/** ARGV: generation. Abandons a build, unless it is read already: the answer to SWITCH may have been lost. */
export const ABANDON = `${NAMES}
if redis.call('GET', KEYS[1]) == ARGV[1] then return end
if redis.call('GET', nextKey) == ARGV[1] then redis.call('DEL', nextKey) end
forget(ARGV[1])`;

export const DROP = `${NAMES}
forget(redis.call('GET', KEYS[1]))
forget(redis.call('GET', nextKey))
redis.call('UNLINK', KEYS[1], nextKey)`;

/**
 * Whether the current generation can return ranks: otherwise its keys were partly evicted, or no scores are
 * kept.
 */
const WHOLE = `
local function wholeOf(gen, ties)
  if not gen or (ties == 'DENSE' and string.sub(gen, 1, 1) ~= 'd') then return nil end
  local z, h, d, c = partsOf(gen)
  local total = redis.call('ZCARD', z)
  if total ~= redis.call('HLEN', h) or redis.call('ZCARD', d) ~= redis.call('HLEN', c) then return nil end
  return z, h, d, total
end
local function rankOf(ties, z, d, score, position)
  if ties == 'SHARED' then return 1 + redis.call('ZCOUNT', z, '-inf', '(' .. score) end
  if ties == 'DENSE' then return 1 + redis.call('ZCOUNT', d, '-inf', '(' .. score) end
  return position + 1
end
local function memberOf(h, player)
  local held = redis.call('HGET', h, player)
  return held and string.sub(held, string.find(held, ':', 1, true) + 1) .. ':' .. player
end`;

/**
 * ARGV: ties, offset, limit, player, score, member. With score and member returns the page after that
 * position, at `offset` from it. Without a player the page at `offset`; with one and a limit of 0 the
 * player's own standing, else the window around it. Returns nil when no generation can answer (none, none
 * with distinct scores, or one whose keys were partly evicted), else total, position and rank of the first,
 * and member, score, member, score…; total -1 when the player has no entry.
 */
export const READ = `${NAMES}${WHOLE}
local ties, start, limit, player = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local z, h, d, total = wholeOf(redis.call('GET', KEYS[1]), ties)
if not z then return nil end
if ARGV[6] ~= '' then
  local low = redis.call('ZCOUNT', z, '-inf', '(' .. ARGV[5])
  local high = low + redis.call('ZCOUNT', z, ARGV[5], ARGV[5])
  while low < high do
    local middle = math.floor((low + high) / 2)
    if redis.call('ZRANGE', z, middle, middle)[1] <= ARGV[6] then low = middle + 1 else high = middle end
  end
  start = start + low
end
if player ~= '' then
  local member = memberOf(h, player)
  if not member then return { -1, 0, 0, {} } end
  local position = redis.call('ZRANK', z, member)
  if limit == 0 then
    start, limit = position, 1
  else
    start = math.max(0, math.min(position - math.floor((limit - 1) / 2), total - limit))
  end
end
local page = redis.call('ZRANGE', z, start, start + limit - 1, 'WITHSCORES')
local rank = #page > 0 and rankOf(ties, z, d, page[2], start) or start + 1
return { total, start, rank, page }`;

/**
 * ARGV: ties, players with commas. Returns nil as READ does, else for each player with an entry, in bytes:
 * their number in the list, position, rank, both halves of the tie, score. Rooms read hundreds of standings
 * repeatedly, and parsing lists of texts would be most of the cost.
 */
export const STANDINGS = `${NAMES}${WHOLE}
local z, h, d = wholeOf(redis.call('GET', KEYS[1]), ARGV[1])
if not z then return nil end
local found, n = {}, 0
for player in string.gmatch(ARGV[2], '[^,]+') do
  local member = memberOf(h, player)
  if member then
    local position, score = redis.call('ZRANK', z, member), redis.call('ZSCORE', z, member)
    local high, low = tonumber(string.sub(member, 1, 7), 16), tonumber(string.sub(member, 8, 14), 16)
    local rank = rankOf(ARGV[1], z, d, score, position)
    found[#found + 1] = struct.pack('>I4I4I4I4I4d', n, position, rank, high, low, tonumber(score))
  end
  n = n + 1
end
return table.concat(found)`;

/**
 * ARGV: ties, token, places, kept ms, shared ms. Copies the first places into the list `{…}:a:token`: the
 * number of entries, then `rank|score|member` for each. Returns the token of the copy to read, which may be
 * one that another reader has just made, or nil as READ does.
 */
export const FREEZE = `${NAMES}${WHOLE}
local shared = redis.call('GET', base .. ':a')
if shared and redis.call('EXISTS', base .. ':a:' .. shared) == 1 then return shared end
local ties, token = ARGV[1], ARGV[2]
local z, h, d, total = wholeOf(redis.call('GET', KEYS[1]), ties)
if not z then return nil end
local key = base .. ':a:' .. token
local page = redis.call('ZRANGE', z, 0, ARGV[3] - 1, 'WITHSCORES')
local lines, rank, last = { total }, 0, nil
for i = 1, #page, 2 do
  local isEqual = page[i + 1] == last and (ties == 'SHARED' or ties == 'DENSE')
  if not isEqual then rank = ties == 'DENSE' and rank + 1 or (i + 1) / 2 end
  last = page[i + 1]
  lines[#lines + 1] = rank .. '|' .. last .. '|' .. page[i]
  if #lines == 500 then
    redis.call('RPUSH', key, unpack(lines))
    lines = {}
  end
end
if #lines > 0 then redis.call('RPUSH', key, unpack(lines)) end
redis.call('PEXPIRE', key, ARGV[4])
redis.call('SET', base .. ':a', token, 'PX', ARGV[5])
return token`;

/** ARGV: token, offset, limit. Returns the number of entries and lines of a copy; nil without one. */
export const FROZEN = `${NAMES}
local key = base .. ':a:' .. ARGV[1]
local total = redis.call('LINDEX', key, 0)
if not total then return nil end
return { total, redis.call('LRANGE', key, ARGV[2] + 1, ARGV[2] + ARGV[3]) }`;

/** ARGV: token. */
export const THAW = `${NAMES}
redis.call('UNLINK', base .. ':a:' .. ARGV[1])`;

/**
 * KEYS[1]: the sorted set of a project's copies by the ms they were made. ARGV: copy, now ms, kept ms,
 * maximum number. Returns the oldest ones beyond that number.
 */
export const REGISTER = `
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[2] - ARGV[3])
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
local tooMany = redis.call('ZRANGE', KEYS[1], 0, -(ARGV[4] + 1))
if #tooMany > 0 then redis.call('ZREM', KEYS[1], unpack(tooMany)) end
return tooMany`;

/** ARGV: a number. Keeps the highest one. */
export const REACHED = `
if tonumber(ARGV[1]) > tonumber(redis.call('HGET', KEYS[1], 'seq') or 0) then
  redis.call('HSET', KEYS[1], 'seq', ARGV[1])
end`;
