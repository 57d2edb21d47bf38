-- What admit.lua and admit-caller.lua have in common: the buckets.
--
-- Above this text admission.ts writes the limits that every request meets, and whether Redis is a Cluster. There all
-- buckets of a caller are in one slot; so a bucket by address on a route that needs a session is each caller's own, and a
-- request to a webhook, which belongs to nobody, is let in twice: by its caller's global bucket, then by the webhook's. What
-- the second refuses has been taken from the first.
--
-- A call into Redis costs more than everything else here, so a bucket is one string that is read once and written once,
-- and the global bucket shares its caller's key with the user's or address's. A token bucket is kept as the moment at
-- which it is full again, a sliding window as the moments in it, a fixed window as its end and its count. Caps are fixed
-- windows under keys of their own: few buckets have any.

local time = redis.call('TIME')
local seconds = tonumber(time[1])
local now = seconds * 1000 + math.floor(time[2] / 1000)
local prefix = ARGV[1]
local list_unpack, pack, unpack, sub = unpack, struct.pack, struct.unpack, string.sub
local no_caps = {}

-- Each: whether there is capacity; what remains after taking; the wait; the state after taking; how long it matters.
local buckets = {
  token = function(state, requests, burst, window)
    local interval, full = window / requests, now
    local capacity = (requests + burst) * interval
    if state ~= '' then full = math.min(math.max(now, (unpack('>d', state))), now + capacity) end
    local left = capacity - (full + interval - now)
    if left < -0.01 then return false, 0, -left end
    return true, math.floor(left / interval + 0.001), 0, pack('>d', full + interval), full + interval - now
  end,
  sliding = function(state, requests, burst, window)
    local first, size = 1, #state
    while first < size and unpack('>I6', state, first) <= now - window do first = first + 6 end
    if first > 1 then state = sub(state, first) end
    local remaining = requests + burst - #state / 6 - 1
    -- More than there is capacity for may be in it when the limit was higher: then the first to go makes no capacity.
    if remaining < 0 then return false, 0, unpack('>I6', state, -6 * (remaining + 1) + 1) + window - now end
    local wait = #state > 0 and unpack('>I6', state) + window - now or window
    return true, remaining, wait, state .. pack('>I6', now), window
  end,
  fixed = function(state, requests, burst, window)
    local ends, count = now + window, 0
    if state ~= '' then
      local kept, counted = unpack('>dI4', state)
      if kept > now and kept <= ends then ends, count = kept, counted end
    end
    if count >= requests + burst then return false, 0, ends - now end
    return true, requests + burst - count - 1, ends - now, pack('>dI4', ends, count + 1), ends - now
  end,
}

local function answer(verdict, bucket, limit, remaining, wait, touch, session)
  return string.format('%s %d %d %d %.0f %.0f %d %s', verdict, bucket, limit, remaining, math.ceil(wait), now, touch, session)
end

local function keep(key, state, ms) redis.call('SET', key, state, 'PX', math.max(1, math.ceil(ms))) end

-- "requests:window requests:window"
local function caps_of(text)
  if text == '' then return no_caps end
  local caps = {}
  for requests, window in string.gmatch(text, '(%d+):(%d+)') do
    caps[#caps + 1] = { requests = tonumber(requests), window = tonumber(window) }
  end
  return caps
end

local function limit_of(algorithm, requests, burst, window, caps)
  return {
    algorithm = algorithm, look = buckets[algorithm], requests = requests, burst = burst, window = window, caps = caps_of(caps),
    whole = { requests = requests + burst, window = window },
  }
end
local global, user, ip = limit_of(list_unpack(global_limit)), limit_of(list_unpack(user_limit)), limit_of(list_unpack(ip_limit))

-- Workers with other algorithms do not understand what is kept under a name, so it is another name.
local function kept_as(own)
  if global.algorithm == 'token' and own.algorithm == 'sliding' then return 'caller:' end
  return 'caller:' .. global.algorithm .. ':' .. own.algorithm .. ':'
end
user.kept_as, ip.kept_as = kept_as(user), kept_as(ip)

-- "algorithm requests burst window scope" and caps, taken apart once per call.
local routes = {}
local function route_of(text)
  local route = routes[text]
  if not route then
    local algorithm, requests, burst, window, scope, caps = string.match(text, '^(%l+) (%d+) (%d+) (%d+) (%l+) ?(.*)$')
    route = limit_of(algorithm, tonumber(requests), tonumber(burst), tonumber(window), caps)
    route.scope, route.before, route.after = scope, prefix .. scope .. ':', ':' .. algorithm
    routes[text] = route
  end
  return route
end

local function scaled(number, percent) return math.floor(number * percent / 100) end

-- A caller as a part of a bucket's name. On a Redis Cluster all of an IPv6 /48 is in one slot, see `add_wider`.
local function tag(caller)
  if not is_cluster then return caller end
  local net, rest = string.match(caller, '^(ip:%x+:%x+:%x+)(:%x+::/64)$')
  return net and '{' .. net .. '}' .. rest or '{' .. caller .. '}'
end

local function key_of(route, caller, address, name)
  local scope, holder = route.scope, tag(caller)
  if scope == 'ip' then holder = (is_cluster and holder or '') .. 'ip:' .. address
  elseif scope == 'webhook' and not is_cluster then holder = '' end
  return route.before .. holder .. name .. route.after
end

-- IPv6: an address is a /64, and who has one often has the /56 or the /48 around it. Each of these has windows of its own for every
-- limit by address: fixed ones, of which a count is kept that expires with the window, as this costs the least. What is refused to
-- a /64 counts for neither, so that no /64 alone uses up what is its neighbours'. Answers those windows, their keys behind those
-- that are read anyway; none for IPv4.
local no_windows = {}
local function add_wider(limit, address, name, keys)
  local net, group = string.match(address, '^(%x+:%x+:%x+):(%x+)::/64$')
  if not net then return no_windows end
  local net48 = prefix .. 'wide:' .. (is_cluster and '{ip:' .. net .. '}' or net)
  local net56 = net48 .. ':' .. sub(group, 1, -3) .. '/56' .. name
  net48 = net48 .. '/48' .. name
  local windows, size = {}, #keys
  for n = 0, #limit.caps do
    local most = n == 0 and limit.whole or limit.caps[n]
    local rest = ':' .. n .. ':' .. most.window
    keys[size + 1], keys[size + 2] = net56 .. rest, net48 .. rest
    windows[2 * n + 1] = { at = size + 1, times = times_56, requests = most.requests * times_56, window = most.window }
    windows[2 * n + 2] = { at = size + 2, times = times_48, requests = most.requests * times_48, window = most.window }
    size = size + 2
  end
  return windows
end

-- Of these windows the first that is full: the wait, what it allows, and it; else nothing.
local function full_window(windows, keys, states)
  for i = 1, #windows do
    local one = windows[i]
    local count = states[one.at]
    if count and tonumber(count) >= one.requests then
      return math.max(1, redis.call('PTTL', keys[one.at])), one.requests, one
    end
  end
end

-- Counts one more in each of these windows.
local function count_in(windows, keys, states)
  for i = 1, #windows do
    local one = windows[i]
    local key = keys[one.at]
    -- While a script runs no key expires: one that was there has its time still.
    if states[one.at] then redis.call('INCR', key) else redis.call('SET', key, 1, 'PX', one.window) end
  end
end

local failures = limit_of('fixed', failed_requests, 0, failed_window, '')

-- What is kept of the failed tokens of an address and of the prefixes around it: the keys, the windows of the latter, the states.
local function failures_of(address)
  local keys = { prefix .. 'failed:' .. tag('ip:' .. address) }
  local windows = add_wider(failures, address, ':failed', keys)
  return keys, windows, redis.call('MGET', list_unpack(keys))
end

-- Counts one more failed token of an address. Answers the milliseconds to wait when there were too many, else nothing and
-- what remains to be done when it is to be counted.
local function failed(address)
  local keys, windows, states = failures_of(address)
  local ok, _, wait, state, ms = buckets.fixed(states[1] or '', failed_requests, 0, failed_window)
  if not ok then return wait end
  wait = full_window(windows, keys, states)
  if wait then return wait end
  return nil, function()
    keep(keys[1], state, ms)
    count_in(windows, keys, states)
  end
end

-- An address from which too many tokens failed may still bring one that is good and not cached. As each such token costs a look
-- into the database, it has few of them then. Answers the milliseconds to wait when there were too many, else nothing.
local function too_many_looks(address)
  local keys, windows, states = failures_of(address)
  local key, times = keys[1], 1
  if buckets.fixed(states[1] or '', failed_requests, 0, failed_window) then
    local _, _, full = full_window(windows, keys, states)
    if not full then return nil end
    key, times = keys[full.at], full.times
  end
  key = key .. ':looks'
  local ok, _, wait, state, ms = buckets.token(redis.call('GET', key) or '', looks_requests * times, 0, looks_window)
  if not ok then return wait end
  keep(key, state, ms)
end

-- The keys of a limit's caps, behind those that are read anyway.
local function add_caps(limit, key, keys)
  for _, cap in ipairs(limit.caps) do
    keys[#keys + 1] = key .. ':' .. cap.window
    cap.at = #keys
  end
end

local function keep_caps(limit, keys)
  for _, cap in ipairs(limit.caps) do keep(keys[cap.at], cap.state, cap.ms) end
end

-- A limit's caps, where its bucket has capacity: nothing, or the wait and what the cap allows that refuses.
local function full_cap(limit, percent, states)
  for _, cap in ipairs(limit.caps) do
    local most = scaled(cap.requests, percent)
    local ok, _, wait, state, ms = buckets.fixed(states[cap.at] or '', most, 0, cap.window)
    if not ok then return wait, most end
    cap.state, cap.ms = state, ms
  end
end

-- Looks at a limit: whether there is capacity; what remains after taking; the wait; how much it, or the cap that refuses, allows;
-- the state after taking; how long that matters.
local function look(limit, state, percent, states)
  local requests, burst = limit.requests, limit.burst
  if percent ~= 100 then requests, burst = scaled(requests, percent), scaled(burst, percent) end
  local ok, remaining, wait, after, ms = limit.look(state, requests, burst, limit.window)
  if ok and limit.caps ~= no_caps then
    local cap_wait, most = full_cap(limit, percent, states)
    if cap_wait then return false, 0, cap_wait, most end
  end
  return ok, remaining, wait, requests + burst, after, ms
end

-- Takes from every bucket, or from none. Answers as the scripts do, and whether it took. `is_for_webhook`: the bucket that
-- follows is in another slot, and not looked at here.
local function take(verdict, caller, percent, session, touch, address, bucket, name, is_for_webhook)
  local route, route_key = nil, nil
  if verdict == 'ok' and bucket ~= '' then
    route = route_of(bucket)
    route_key = key_of(route, caller, address, name)
    is_for_webhook = route.scope == 'webhook'
  end
  local own = session ~= '' and user or ip
  local caller_key = prefix .. own.kept_as .. tag(caller)
  local states, keys = nil, nil
  local own_windows, route_windows = no_windows, no_windows
  local is_wide = session == '' and not is_for_webhook and sub(address, -5) == '::/64'
  if not is_wide and global.caps == no_caps and own.caps == no_caps and not (route and route.caps ~= no_caps) then
    states = redis.call('MGET', caller_key, route_key or caller_key)
  else
    keys = { caller_key, route_key or caller_key }
    add_caps(global, caller_key .. ':global', keys)
    if not is_for_webhook then add_caps(own, caller_key, keys) end
    if route then add_caps(route, route_key, keys) end
    if is_wide then
      own_windows = add_wider(own, address, '', keys)
      if route then route_windows = add_wider(route, address, name, keys) end
    end
    states = redis.call('MGET', list_unpack(keys))
  end
  -- Length of the global bucket's state, that state, the own bucket's state.
  local both, length = states[1] or '', 0
  if both ~= '' then length = unpack('>I2', both) end

  local ok, remaining, wait, limit, global_state, global_ms = look(global, sub(both, 3, 2 + length), 100, states)
  local shown, own_state, own_ms, route_state, route_ms = 0, sub(both, 3 + length), 0, nil, nil
  if ok and not is_for_webhook then
    shown = 1
    ok, remaining, wait, limit, own_state, own_ms = look(own, own_state, percent, states)
    local wide_wait, most = nil, nil
    if ok then wide_wait, most = full_window(own_windows, keys, states) end
    if wide_wait then ok, wait, limit = false, wide_wait, most end
  elseif ok and own_state ~= '' then
    own_ms = redis.call('PTTL', caller_key)
  end
  if ok and route then
    shown = 2
    ok, remaining, wait, limit, route_state, route_ms = look(route, states[2] or '', route.scope == 'ip' and 100 or percent, states)
    local wide_wait, most = nil, nil
    if ok then wide_wait, most = full_window(route_windows, keys, states) end
    if wide_wait then ok, wait, limit = false, wide_wait, most end
  end
  if not ok then return answer('limited', shown, limit, 0, wait, 0, session), false end

  keep(caller_key, pack('>I2', #global_state) .. global_state .. own_state, math.max(global_ms, own_ms))
  if route then keep(route_key, route_state, route_ms) end
  if keys then
    keep_caps(global, keys)
    if not is_for_webhook then keep_caps(own, keys) end
    if route then keep_caps(route, keys) end
    count_in(own_windows, keys, states)
    count_in(route_windows, keys, states)
  end
  return answer(verdict, shown, limit, remaining, wait, touch, session), true
end
