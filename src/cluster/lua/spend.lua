-- Takes an amount from each of some budgets, or from none.
--
-- KEYS  the budgets, all in one slot
-- ARGV  for each key: the amount (negative: it is given back); how much the budget holds when it is full; how much flows back in a second
-- Answers  milliseconds until the amounts would be there, 0 when they were taken; and which budget lacks most, from 1
--
-- A budget is kept as the moment at which it is full again; a budget that is full has no key.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(time[2] / 1000)
local longest, which = 0, 0
local fulls = {}
for i, key in ipairs(KEYS) do
  local amount, capacity, per_second = tonumber(ARGV[3 * i - 2]), tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
  local ms_per_unit = 1000 / per_second
  local capacity_ms = capacity * ms_per_unit
  local full = math.min(math.max(now, tonumber(redis.call('GET', key) or '0')), now + capacity_ms)
  -- More than a budget holds is let through when it is full, and paid back afterwards.
  local after = full + math.max(-capacity_ms, math.min(amount * ms_per_unit, capacity_ms))
  local wait = after - now - capacity_ms
  if wait > longest then longest, which = wait, i end
  fulls[i] = after
end
if longest > 0.01 then return { math.ceil(longest), which } end
for i, key in ipairs(KEYS) do
  redis.call('SET', key, string.format('%.3f', fulls[i]), 'PX', math.max(1, math.ceil(fulls[i] - now)))
end
return { 0, 0 }
