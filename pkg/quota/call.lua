-- Carries out one call of one process for one project: adds what the process
-- used without asking, decides on a batch, and grants leases. All or nothing: a
-- batch is granted by every quota or counted by none.
--
-- KEYS 1 call    hash seq, reply: the process's last call, so that a call that
--                is sent twice is carried out once
--      2 rate    hash level, at (us of this server's clock), and for each
--                process that holds a lease "n until"
--      3 day     hash spent, back: both only grow, so the higher of two
--      4 month   remembered values is the newer; used = spent - back
-- ARGV 1 seq, 2 ms to keep the call, 3 1 if there is a batch to decide on
--      rate:       4 per second (0: no limit), 5 burst, 6 known level or "",
--                  7 uncounted (below 0: returned), 8 have, 9 need, 10 want,
--                  11 us that a lease lasts, 12 process
--      day, month: 13 / 22 limit (0: none), +1 known spent, +2 known back,
--                  +3 floor, +4 uncounted, +5 have, +6 need, +7 want,
--                  +8 ms to keep
-- Reply: "granted level leased spent back leased spent back leased", or
-- "stale" if a later call was carried out already.

local function text(n) return string.format('%.0f', n) end

local seq = tonumber(ARGV[1])
local last = redis.call('HMGET', KEYS[1], 'seq', 'reply')
if last[1] then
  if tonumber(last[1]) == seq then return last[2] end
  if tonumber(last[1]) > seq then return 'stale' end
end

-- The bucket now. Leases of other processes reduce what it may hold.
local rate = {}
for i, name in ipairs({'limit', 'burst', 'known', 'uncounted', 'have', 'need', 'want', 'lasts'}) do
  rate[name] = tonumber(ARGV[3 + i])
end
local process = ARGV[12]
local level, now = 0, 0
if rate.limit > 0 then
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local kept, others = {}, 0
  local fields = redis.call('HGETALL', KEYS[2])
  for i = 1, #fields, 2 do
    local name, value = fields[i], fields[i + 1]
    if name == 'level' or name == 'at' then
      kept[name] = tonumber(value)
    elseif name ~= process then
      local n, ends = value:match('^(%d+) (%d+)$')
      if tonumber(ends) > now then others = others + tonumber(n) else redis.call('HDEL', KEYS[2], name) end
    end
  end
  local most = math.max(rate.burst - others - rate.have, 0)
  level = rate.known or rate.burst
  if kept.level then
    level = kept.level + math.max(now - kept.at, 0) * rate.limit / 1000000 -- a clock set back refills nothing
  end
  if rate.uncounted < 0 then level = level - rate.uncounted end
  level = math.min(level, most)
  -- What was used without asking empties the bucket, but not below zero: time
  -- refills the bucket anyway, so old use is no reason to refuse.
  if rate.uncounted > 0 then level = math.max(level - rate.uncounted, math.min(level, 0)) end
end

-- The counters now.
local function counter(key, from)
  local c = {key = key}
  for i, name in ipairs({'limit', 'spent', 'back', 'floor', 'uncounted', 'have', 'need', 'want', 'keep'}) do
    c[name] = tonumber(ARGV[from + i - 1])
  end
  if c.limit > 0 then
    local kept = redis.call('HMGET', key, 'spent', 'back')
    c.spent = math.max(c.spent, tonumber(kept[1] or 0))
    c.back = math.max(c.back, tonumber(kept[2] or 0))
    c.spent = math.max(c.spent, c.floor + c.back)
    if c.uncounted > 0 then c.spent = c.spent + c.uncounted else c.back = c.back - c.uncounted end
  end
  return c
end
local counters = {counter(KEYS[3], 13), counter(KEYS[4], 22)}

-- The process's own lease counts as not used yet. So a limit is exceeded by
-- less than the last batch that was granted.
local granted = true
if ARGV[3] == '1' then
  if rate.limit > 0 and rate.need > 0 and level + rate.have < 1 then granted = false end
  for _, c in ipairs(counters) do
    if c.limit > 0 and c.need > 0 and c.spent - c.back - c.have >= c.limit then granted = false end
  end
end

-- Count the batch and lease part of what is left: at most half of the bucket,
-- an eighth of a counter.
local leased = 0
if rate.limit > 0 then
  if granted then
    level = level - rate.need
    leased = math.max(0, math.min(rate.want, math.floor(level / 2)))
    level = level - leased
  end
  local noted = leased
  if not granted or ARGV[3] ~= '1' then noted = noted + rate.have end
  if noted > 0 then
    redis.call('HSET', KEYS[2], process, text(noted) .. ' ' .. text(now + rate.lasts))
  else
    redis.call('HDEL', KEYS[2], process)
  end
  redis.call('HSET', KEYS[2], 'level', string.format('%.6f', level), 'at', text(now))
  redis.call('PEXPIRE', KEYS[2], text((rate.burst - level) / rate.limit * 1000 + 60000))
end
for _, c in ipairs(counters) do
  c.leased = 0
  if c.limit > 0 then
    if granted then
      c.spent = c.spent + c.need
      c.leased = math.max(0, math.min(c.want, math.floor((c.limit - c.spent + c.back) / 8)))
      c.spent = c.spent + c.leased
    end
    redis.call('HSET', c.key, 'spent', text(c.spent), 'back', text(c.back))
    redis.call('PEXPIRE', c.key, text(c.keep))
  end
end

local reply = (granted and '1' or '0') .. ' ' .. string.format('%.6f', level) .. ' ' .. text(leased)
for _, c in ipairs(counters) do
  reply = reply .. ' ' .. text(c.spent) .. ' ' .. text(c.back) .. ' ' .. text(c.leased)
end
redis.call('HSET', KEYS[1], 'seq', text(seq), 'reply', reply)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return reply
