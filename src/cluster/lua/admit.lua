-- Admits requests: who asks, and whether the limits let him. Nothing is taken unless every bucket allows.
--
-- KEYS[i]  the access session of the i-th request's token, as tokens.ts writes it; unused without a token
-- ARGV     1 what bucket keys begin with; then four per request:
--            the address, as limits count it
--            who: '' nobody, on an open route; '-' nobody, where somebody is needed; '!' a token that cannot be right;
--              else the SHA-256 of the token's secret
--            the route's bucket: '' or "algorithm requests burst window scope"
--            the rest of that bucket's name
-- Answers  one per request, "verdict bucket limit remaining wait now touch session": milliseconds; bucket 0 global, 1 user
--          or address, 2 route; the last one looked at, or the first that refused.
--
-- Above this text admission.ts writes the limits that every request meets. The names of buckets depend on what the
-- session says, so they are not among KEYS: on Redis Cluster the session and the buckets are several slots, and
-- admission.ts is where one call becomes one call per slot.
--
-- A call into Redis costs more than everything else here, so a bucket is one string that is read once and written once,
-- and the global bucket shares its caller's key with the user's or address's. A token bucket is kept as the moment at
-- which it is full again, a sliding window as the moments in it, a fixed window as its end and its count.

local time = redis.call('TIME')
local seconds = tonumber(time[1])
local now = seconds * 1000 + math.floor(time[2] / 1000)
local prefix = ARGV[1]
local sessions = redis.call('MGET', unpack(KEYS))
local pack, unpack, sub = struct.pack, struct.unpack, string.sub

-- Each: whether there is room; what remains after taking; the wait; the state after taking; how long it matters.
local buckets = {
  token = function(state, requests, burst, window)
    local interval, full = window / requests, now
    if state ~= '' then full = math.max(now, (unpack('>d', state))) end
    local room = (requests + burst) * interval - (full + interval - now)
    if room < -0.01 then return false, 0, -room end
    return true, math.floor(room / interval + 0.001), 0, pack('>d', full + interval), full + interval - now
  end,
  sliding = function(state, requests, burst, window)
    local first, size = 1, #state
    while first < size and unpack('>I6', state, first) <= now - window do first = first + 6 end
    if first > 1 then state = sub(state, first) end
    local remaining = requests + burst - #state / 6 - 1
    local wait = #state > 0 and unpack('>I6', state) + window - now or window
    if remaining < 0 then return false, 0, wait end
    return true, remaining, wait, state .. pack('>I6', now), window
  end,
  fixed = function(state, requests, burst, window)
    local ends, count = now + window, 0
    if state ~= '' then
      local kept, counted = unpack('>dI4', state)
      if kept > now then ends, count = kept, counted end
    end
    if count >= requests + burst then return false, 0, ends - now end
    return true, requests + burst - count - 1, ends - now, pack('>dI4', ends, count + 1), ends - now
  end,
}

local function answer(verdict, bucket, limit, remaining, wait, touch, session)
  return string.format('%s %d %d %d %.0f %.0f %d %s', verdict, bucket, limit, remaining, math.ceil(wait), now, touch, session)
end

local function keep(key, state, ms) redis.call('SET', key, state, 'PX', math.max(1, math.ceil(ms))) end

-- "algorithm requests burst window scope", taken apart once per call.
local routes = {}
local function route_of(text)
  local route = routes[text]
  if not route then
    local algorithm, requests, burst, window, scope = string.match(text, '^(%l+) ([%d.]+) (%d+) ([%d.]+) (%l+)$')
    route = { look = buckets[algorithm], requests = tonumber(requests), burst = tonumber(burst), window = tonumber(window), scope = scope }
    routes[text] = route
  end
  return route
end

local touched = {}

local function admit(session_key, cached, address, who, bucket, name)
  local verdict, caller, session, percent, touch = 'ok', 'ip:' .. address, '', 100, 0

  if who == '-' then
    verdict = 'anonymous'
  elseif who ~= '' then
    local value = who ~= '!' and cached
    -- Equal strings are one object in Lua: the comparison takes the same time wherever they differ.
    if value and sub(value, 1, 64) == who then
      if tonumber(sub(value, 77, 86)) <= seconds then
        verdict = 'expired'
      else
        local digits, user, from = string.match(value, '^(%d+) (%d+) ()', 88)
        percent, caller, session = tonumber(digits), 'u:' .. user, sub(value, from)
        if seconds - tonumber(sub(value, 66, 75)) >= 60 and not touched[session_key] then touch = 1 end
      end
    else
      verdict = 'revoked'
    end
    if verdict ~= 'ok' then
      local key = prefix .. 'failed:ip:' .. address
      local ok, _, wait, state, ms = buckets.fixed(redis.call('GET', key) or '', failed_requests, 0, failed_window)
      if not ok then return answer('failed', 1, failed_requests, 0, wait, 0, '') end
      if who ~= '!' and not value then return answer('miss', 1, 0, 0, 0, 0, '') end
      keep(key, state, ms)
    end
  end

  local function scaled(number) return math.floor(number * percent / 100) end

  local route, route_key = nil, nil
  if verdict == 'ok' and bucket ~= '' then
    route = route_of(bucket)
    route_key = prefix .. route.scope .. ':' .. (route.scope == 'ip' and 'ip:' .. address or caller) .. name
  end
  local caller_key = prefix .. 'caller:' .. caller
  local states = redis.call('MGET', caller_key, route_key or caller_key)
  -- Length of the global bucket's state, that state, the own bucket's state.
  local both, length = states[1] or '', 0
  if both ~= '' then length = unpack('>I2', both) end

  local ok, remaining, wait, global_state, global_ms = buckets[global_algorithm](sub(both, 3, 2 + length), global_requests, global_burst, global_window)
  local limit, shown = global_requests + global_burst, 0
  local own_state, own_ms, route_state, route_ms
  if ok then
    local requests, burst, window, look = ip_requests, ip_burst, ip_window, buckets[ip_algorithm]
    if session ~= '' then requests, burst, window, look = scaled(user_requests), scaled(user_burst), user_window, buckets[user_algorithm] end
    limit, shown = requests + burst, 1
    ok, remaining, wait, own_state, own_ms = look(sub(both, 3 + length), requests, burst, window)
  end
  if ok and route then
    local requests, burst = route.requests, route.burst
    if route.scope ~= 'ip' then requests, burst = scaled(requests), scaled(burst) end
    limit, shown = requests + burst, 2
    ok, remaining, wait, route_state, route_ms = route.look(states[2] or '', requests, burst, route.window)
  end
  if not ok then return answer('limited', shown, limit, 0, wait, 0, session) end

  keep(caller_key, pack('>I2', #global_state) .. global_state .. own_state, math.max(global_ms, own_ms))
  if route then keep(route_key, route_state, route_ms) end
  if touch == 1 then
    redis.call('SETRANGE', session_key, 65, string.format('%010d', seconds))
    touched[session_key] = true
  end
  return answer(verdict, shown, limit, remaining, wait, touch, session)
end

local answers = {}
for i = 1, #KEYS do
  local at = 4 * i
  answers[i] = admit(KEYS[i], sessions[i], ARGV[at - 2], ARGV[at - 1], ARGV[at], ARGV[at + 1])
end
return answers
