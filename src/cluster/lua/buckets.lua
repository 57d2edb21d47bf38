-- What admit.lua and count-failed.lua have in common: the buckets.
--
-- Above this text admission.ts writes the limits that every request meets, and whether Redis is a Cluster. There all
-- buckets of a caller are in one slot; so a bucket by address on a route that needs a session is each caller's own, and a
-- request to a webhook, which belongs to nobody, is let in twice: by its caller's global bucket, then by the webhook's. What
-- the second refuses has been taken from the first.
--
-- A call into Redis costs more than everything else here, so a bucket is one string that is read once and written once,
-- and the global bucket shares its caller's key with the user's or address's. A token bucket is kept as the moment at
-- which it is full again, a sliding window as the moments in it, in order, a fixed window as its end and its count. Caps are
-- fixed windows under keys of their own: few buckets have any.
--
-- What is lent to a worker (see leases.ts) is taken like everything else, but it may be used later, until the lease ends:
--   sliding  it counts as if it were used when the lease ends, so it counts until every possible use is out of the window
--   fixed    no lease outlives the window that it is taken from
--   token    behind the moment stand the leases, each with its end and how much it is. As long as a lease lasts, that much
--            is missing from a full bucket: what is in the bucket and what is lent are never more than its capacity together

local time = redis.call('TIME')
local seconds = tonumber(time[1])
local now = seconds * 1000 + math.floor(time[2] / 1000)
local prefix = ARGV[1]
local list_unpack, pack, unpack, sub = unpack, struct.pack, struct.unpack, string.sub
local no_caps = {}

-- The moment at which a token bucket is full, as of now, and the leases that last.
local function with_leases(state, interval)
  local full, size = unpack('>d', state), #state
  if size == 8 then return full, '' end
  local lent, at = 0, 9
  for i = 9, size, 8 do lent = lent + select(2, unpack('>I6I2', state, i)) end
  while at < size do
    local ends, count = unpack('>I6I2', state, at)
    if ends > now then break end
    full = math.max(full, ends + lent * interval)
    lent, at = lent - count, at + 8
  end
  return math.max(full, now + lent * interval), sub(state, at)
end

-- Puts a moment into those of a sliding window, so many times.
local function insert(state, moment, count)
  local at = #state
  while at > 0 and unpack('>I6', state, at - 5) > moment do at = at - 6 end
  return sub(state, 1, at) .. string.rep(pack('>I6', moment), count) .. sub(state, at + 1)
end

-- For how long the moments of a sliding window matter.
local function lasting(state, window) return math.max(window, unpack('>I6', state, #state - 5) + window - now) end

-- For how long a token bucket matters, which leases stand behind.
local function until_full(full, leases)
  if leases == '' then return full - now end
  return math.max(full, (unpack('>I6', leases, #leases - 7))) - now
end

-- Each: whether there is capacity; what remains after taking; the wait; the state after taking; how long it matters.
local buckets = {
  token = function(state, requests, burst, window)
    local interval, full, leases = window / requests, now, ''
    local capacity = (requests + burst) * interval
    if state ~= '' then
      full, leases = with_leases(state, interval)
      full = math.min(math.max(now, full), now + capacity)
    end
    local left = capacity - (full + interval - now)
    if left < -0.01 then return false, 0, -left end
    full = full + interval
    return true, math.floor(left / interval + 0.001), 0, pack('>d', full) .. leases, until_full(full, leases)
  end,
  sliding = function(state, requests, burst, window)
    local first, size = 1, #state
    while first < size and unpack('>I6', state, first) <= now - window do first = first + 6 end
    if first > 1 then state = sub(state, first) end
    local remaining = requests + burst - #state / 6 - 1
    -- More than there is capacity for may be in it when the limit was higher: then the first to go makes no capacity.
    if remaining < 0 then return false, 0, unpack('>I6', state, -6 * (remaining + 1) + 1) + window - now end
    local wait = #state > 0 and unpack('>I6', state) + window - now or window
    local after = insert(state, now, 1)
    return true, remaining, wait, after, lasting(after, window)
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

-- Each: how long a lease may last, of at most `ms`. The state is that after taking.
local longest_lease = {
  token = function(_, _, ms) return ms end,
  -- What is lent counts for so much longer.
  sliding = function(_, window, ms) return math.min(ms, math.floor(window / 4)) end,
  fixed = function(state, _, ms) return math.min(ms, math.floor(unpack('>d', state) - now)) end,
}

-- Each: lends so much more; the state after that, and how long it matters.
local lend = {
  token = function(state, count, ends, requests, window)
    local full, leases = unpack('>d', state) + count * window / requests, sub(state, 9)
    local at = #leases
    while at > 0 and unpack('>I6', leases, at - 7) > ends do at = at - 8 end
    leases = sub(leases, 1, at) .. pack('>I6I2', ends, count) .. sub(leases, at + 1)
    return pack('>d', full) .. leases, until_full(full, leases)
  end,
  sliding = function(state, count, ends, _, window)
    local after = insert(state, ends, count)
    return after, lasting(after, window)
  end,
  fixed = function(state, count)
    local ends, counted = unpack('>dI4', state)
    return pack('>dI4', ends, counted + count), ends - now
  end,
}

-- Each: ends a lease of `count`, of which `unspent` were not used; the state after that, nil if it says nothing of the lease.
-- What was used was used by now.
local settle = {
  token = function(state, count, unspent, ends, _, requests, window)
    local interval = window / requests
    local full, leases = with_leases(state, interval)
    for at = 1, #leases, 8 do
      local own_ends, lent = unpack('>I6I2', leases, at)
      -- Of one that is over nothing is given back: the bucket may have been full since.
      if own_ends == ends and lent >= count then
        local rest = lent > count and pack('>I6I2', ends, lent - count) or ''
        return pack('>d', full - unspent * interval) .. sub(leases, 1, at - 1) .. rest .. sub(leases, at + 8)
      end
    end
  end,
  sliding = function(state, count, unspent, ends)
    local at = #state
    while at > 0 and unpack('>I6', state, at - 5) > ends do at = at - 6 end
    -- They are in order: if that one is of the lease, so are all behind it.
    local first = at - 6 * count
    if first < 0 or unpack('>I6', state, first + 1) ~= ends then return nil end
    return insert(sub(state, 1, first) .. sub(state, at + 1), math.min(now, ends), count - unspent)
  end,
  fixed = function(state, _, unspent, _, taken, _, window)
    local ends, counted = unpack('>dI4', state)
    if ends > now and ends - window <= taken and taken < ends then return pack('>dI4', ends, math.max(0, counted - unspent)) end
  end,
}

local function answer(verdict, bucket, limit, remaining, wait)
  return string.format('%s %d %d %d %.0f %.0f', verdict, bucket, limit, remaining, math.ceil(wait), now)
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
