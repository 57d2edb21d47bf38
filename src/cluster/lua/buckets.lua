-- What admit.lua and admit-caller.lua have in common: the buckets.
--
-- Above this text admission.ts writes the limits that every request meets, and whether Redis is a Cluster. There all
-- buckets of a caller are in one slot; so a bucket by address on a route that needs a session is each caller's own.
--
-- A call into Redis costs more than everything else here, so a bucket is one string that is read once and written once,
-- and the global bucket shares its caller's key with the user's or address's. A token bucket is kept as the moment at
-- which it is full again, a sliding window as the moments in it, a fixed window as its end and its count.

local time = redis.call('TIME')
local seconds = tonumber(time[1])
local now = seconds * 1000 + math.floor(time[2] / 1000)
local prefix = ARGV[1]
local list_unpack, pack, unpack, sub = unpack, struct.pack, struct.unpack, string.sub

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

-- A caller as a part of a bucket's name.
local function tag(caller) return is_cluster and '{' .. caller .. '}' or caller end

-- Counts one more failed token of an address. Answers the milliseconds to wait when there were too many, else nothing and
-- what remains to be done when it is to be counted.
local function failed(address)
  local key = prefix .. 'failed:' .. tag('ip:' .. address)
  local ok, _, wait, state, ms = buckets.fixed(redis.call('GET', key) or '', failed_requests, 0, failed_window)
  if not ok then return wait end
  return nil, function() keep(key, state, ms) end
end

-- Takes from every bucket, or from none. Answers as the scripts do, and whether it took.
local function take(verdict, caller, percent, session, touch, address, bucket, name)
  local function scaled(number) return math.floor(number * percent / 100) end

  local route, route_key = nil, nil
  if verdict == 'ok' and bucket ~= '' then
    route = route_of(bucket)
    local holder = tag(caller)
    if route.scope == 'ip' then holder = (is_cluster and holder or '') .. 'ip:' .. address end
    route_key = prefix .. route.scope .. ':' .. holder .. name
  end
  local caller_key = prefix .. 'caller:' .. tag(caller)
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
  if not ok then return answer('limited', shown, limit, 0, wait, 0, session), false end

  keep(caller_key, pack('>I2', #global_state) .. global_state .. own_state, math.max(global_ms, own_ms))
  if route then keep(route_key, route_state, route_ms) end
  return answer(verdict, shown, limit, remaining, wait, touch, session), true
end
