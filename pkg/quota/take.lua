-- Settles one flight of one process for one project: adds what the process
-- used on its own, decides on a batch, and hands out leases. All or nothing: a
-- batch is granted by every quota or counted by none.
--
-- KEYS 1 flight  hash seq, reply: the process's last flight, so that one that
--                is sent twice is settled once
--      2 rate    hash level, at (us of this server's clock), and for each
--                process that holds a lease "n until"
--      3 day     hash spent, back: both only grow, so that of two memories of
--      4 month   them the higher is the newer; used = spent - back
-- ARGV 1 seq, 2 ms to keep the flight, 3 batch: 1 if there is one to decide on
--      rate:       4 per second (0: no limit), 5 burst, 6 level known or "",
--                  7 debt (below 0: given back), 8 have, 9 need, 10 want,
--                  11 us that a lease lasts, 12 process
--      day, month: 13 / 22 limit (0: none), +1 spent known, +2 back known,
--                  +3 used at least, +4 debt, +5 have, +6 need, +7 want,
--                  +8 ms to keep
-- Reply: "granted level leased spent back leased spent back leased", or
-- "stale": a later flight was settled already.

local function text(n) return string.format('%.0f', n) end

local seq = tonumber(ARGV[1])
local last = redis.call('HMGET', KEYS[1], 'seq', 'reply')
if last[1] then
  if tonumber(last[1]) == seq then return last[2] end
  if tonumber(last[1]) > seq then return 'stale' end
end

-- The bucket as it is now: so much emptier as others hold leases.
local rate = {}
for i, name in ipairs({'limit', 'burst', 'known', 'debt', 'have', 'need', 'want', 'lasts'}) do
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
  if rate.debt < 0 then level = level - rate.debt end
  level = math.min(level, most)
  -- What was used without asking empties the bucket, and no more: time
  -- refills it anyway, so that old debts are no reason to refuse.
  if rate.debt > 0 then level = math.max(level - rate.debt, math.min(level, 0)) end
end

-- The counters as they are now.
local function counter(key, from)
  local c = {key = key}
  for i, name in ipairs({'limit', 'spent', 'back', 'least', 'debt', 'have', 'need', 'want', 'keep'}) do
    c[name] = tonumber(ARGV[from + i - 1])
  end
  if c.limit > 0 then
    local kept = redis.call('HMGET', key, 'spent', 'back')
    c.spent = math.max(c.spent, tonumber(kept[1] or 0))
    c.back = math.max(c.back, tonumber(kept[2] or 0))
    c.spent = math.max(c.spent, c.least + c.back)
    if c.debt > 0 then c.spent = c.spent + c.debt else c.back = c.back - c.debt end
  end
  return c
end
local counters = {counter(KEYS[3], 13), counter(KEYS[4], 22)}

-- What the process has at hand counts as not used yet. So a limit is crossed
-- by less than the last batch that was granted.
local granted = true
if ARGV[3] == '1' then
  if rate.limit > 0 and rate.need > 0 and level + rate.have < 1 then granted = false end
  for _, c in ipairs(counters) do
    if c.limit > 0 and c.need > 0 and c.spent - c.back - c.have >= c.limit then granted = false end
  end
end

-- Take, and lease of what is left: half of the bucket, an eighth of a counter.
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
