-- Admits one request: who asks, and whether the limits let him. Nothing is taken unless every bucket allows.
--
-- KEYS[1]  the access session of the token presented, as tokens.ts writes it; unused without a token
-- ARGV     1 what bucket keys begin with   2 the address, as limits count it
--          3 who: '' nobody, on an open route; '-' nobody, where somebody is needed; '!' a token that cannot be right;
--            else the SHA-256 of the token's secret
--          4 algorithm of the route's bucket, '' for none   5 requests   6 burst   7 window in ms   8 scope   9 rest of its name
-- Answer   "verdict bucket limit remaining wait now touch session": milliseconds; bucket 0 global, 1 user or address,
--          2 route; the last one looked at, or the first that refused.
--
-- Above this text admission.ts writes the limits that every request meets. The names of buckets depend on what the
-- session says, so they are not among KEYS: on Redis Cluster the session, the user's and the address's buckets are three
-- slots, and admission.ts is where one call becomes one call per slot.

local time = redis.call('TIME')
local seconds = tonumber(time[1])
local now = seconds * 1000 + math.floor(time[2] / 1000)
local prefix, address, who = ARGV[1], ARGV[2], ARGV[3]

local function answer(verdict, bucket, limit, remaining, wait, touch, session)
  return string.format('%s %d %d %d %.0f %.0f %d %s', verdict, bucket, limit, remaining, math.ceil(wait), now, touch, session)
end

-- A token bucket is kept as the moment at which it is full again: one number says how much is in it.
-- A sliding window is the list of the moments in it. A fixed window is a count that expires as a whole.

local function look(algorithm, key, requests, burst, window)
  local capacity = requests + burst
  if algorithm == 'token' then
    local interval = window / requests
    local full = tonumber(redis.call('GET', key) or 0)
    if full < now then full = now end
    local room = capacity * interval - (full + interval - now)
    if room < -0.01 then return false, capacity, 0, -room, full end
    return true, capacity, math.floor(room / interval + 0.001), 0, full + interval
  end
  if algorithm == 'sliding' then
    local oldest = tonumber(redis.call('LINDEX', key, 0) or nil)
    while oldest and oldest <= now - window do
      redis.call('LPOP', key)
      oldest = tonumber(redis.call('LINDEX', key, 0) or nil)
    end
    local count = oldest and redis.call('LLEN', key) or 0
    local wait = (oldest or now) + window - now
    if count >= capacity then return false, capacity, 0, wait end
    return true, capacity, capacity - count - 1, wait
  end
  local count = tonumber(redis.call('GET', key) or 0)
  local wait = count > 0 and redis.call('PTTL', key) or window
  if count >= capacity then return false, capacity, 0, wait end
  return true, capacity, capacity - count - 1, wait, count
end

local function take(algorithm, key, window, state)
  if algorithm == 'token' then
    redis.call('SET', key, string.format('%.3f', state), 'PX', math.ceil(state - now))
  elseif algorithm == 'sliding' then
    redis.call('RPUSH', key, now)
    redis.call('PEXPIRE', key, window)
  elseif state == 0 then
    redis.call('SET', key, 1, 'PX', window)
  else
    redis.call('INCR', key)
  end
end

local verdict, caller, session, percent, touch = 'ok', 'ip:' .. address, '', 100, 0

if who == '-' then
  verdict = 'anonymous'
elseif who ~= '' then
  local failed = prefix .. 'failed:ip:' .. address
  local value = who ~= '!' and redis.call('GET', KEYS[1])
  if value and value ~= 'revoked' and string.sub(value, 1, 64) == who then
    -- Equal strings are one object in Lua: the comparison takes the same time wherever they differ.
    if tonumber(string.sub(value, 77, 86)) <= seconds then
      verdict = 'expired'
    else
      local digits, user, from = string.match(value, '^(%d+) (%d+) ()', 88)
      percent, caller, session = tonumber(digits), 'u:' .. user, string.sub(value, from)
      if seconds - tonumber(string.sub(value, 66, 75)) >= 60 then touch = 1 end
    end
  else
    verdict = 'revoked'
  end
  if verdict ~= 'ok' then
    local failures = tonumber(redis.call('GET', failed) or 0)
    if failures >= failed_requests then return answer('failed', 1, failed_requests, 0, redis.call('PTTL', failed), 0, '') end
    if who ~= '!' and not value then return answer('miss', 1, 0, 0, 0, 0, '') end
    take('fixed', failed, failed_window, failures)
  end
end

local function scaled(number) return math.floor(number * percent / 100) end

local global = prefix .. 'global:' .. caller
local ok, limit, remaining, wait, global_state = look(global_algorithm, global, global_requests, global_burst, global_window)
if not ok then return answer('limited', 0, limit, remaining, wait, 0, session) end

local own, own_algorithm, own_window, own_state
if session ~= '' then
  own, own_algorithm, own_window = prefix .. 'user:' .. caller, user_algorithm, user_window
  ok, limit, remaining, wait, own_state = look(own_algorithm, own, scaled(user_requests), scaled(user_burst), own_window)
else
  own, own_algorithm, own_window = prefix .. 'ip:' .. caller, ip_algorithm, ip_window
  ok, limit, remaining, wait, own_state = look(own_algorithm, own, ip_requests, ip_burst, own_window)
end
if not ok then return answer('limited', 1, limit, remaining, wait, 0, session) end

local shown, route, route_state = 1, nil, nil
if verdict == 'ok' and ARGV[4] ~= '' then
  local requests, burst = tonumber(ARGV[5]), tonumber(ARGV[6])
  if ARGV[8] == 'ip' then
    route = prefix .. 'ip:ip:' .. address .. ARGV[9]
  else
    route, requests, burst = prefix .. ARGV[8] .. ':' .. caller .. ARGV[9], scaled(requests), scaled(burst)
  end
  shown = 2
  ok, limit, remaining, wait, route_state = look(ARGV[4], route, requests, burst, tonumber(ARGV[7]))
  if not ok then return answer('limited', 2, limit, remaining, wait, 0, session) end
end

take(global_algorithm, global, global_window, global_state)
take(own_algorithm, own, own_window, own_state)
if route then take(ARGV[4], route, ARGV[7], route_state) end
if touch == 1 then redis.call('SETRANGE', KEYS[1], 65, string.format('%010d', seconds)) end
return answer(verdict, shown, limit, remaining, wait, touch, session)
