-- Asks the limits about requests. Whose token it is has been found out before. Nothing is taken unless every bucket allows.
--
-- KEYS[1]  where Redis is a Cluster, a key in the slot of the caller's buckets: all requests are one caller's there. The names of
--          the buckets depend on the limits, so they are not among KEYS
-- ARGV     1 what bucket keys begin with; 2 for how many milliseconds at most something is lent; then nine per request:
--            what was found out: 'ok', 'anonymous', 'revoked', 'expired', 'malformed', 'unknown', 'barred', or 'miss' when the
--              session is to be loaded first; on a Cluster 'caller' and 'webhook' are the two steps of a request to a
--              webhook, the second with "webhook:<id>" as caller; 'settle' is no request, but the end of a lease
--            the caller, "u:<id>" or "ip:<address>"; percent of the limits; the address, as limits count it
--            the route's bucket: '' or "algorithm requests burst window scope", and " requests:window" for each cap
--            the rest of that bucket's name
--            how many more to lend at most, and one part in how many of what remains in the scarcest bucket
--            the lease that ends with it, '' or "<taken> <ends> <count> <unspent>": when, in milliseconds, and how many
-- Answers  one per request: what was found out where the limits let it in, 'limited', 'failed' or 'miss', as
--          "verdict bucket limit remaining wait now": milliseconds; bucket 0 global, 1 user or address, 2 route; the last one looked
--          at, or the first that refused. Behind that, where something is lent, " count milliseconds".

local lease_ms = tonumber(ARGV[2])
-- Below so many milliseconds nothing is lent.
local shortest_lease = 10
-- A smaller part than that is asked for in advance, of which fewer than so many are not worth that others have less.
local usual_share, fewest_in_advance = 3, 4

-- A limit of a caller with so many percent.
local function of_caller(limit, percent)
  return limit.scope == 'ip' and 100 or percent
end

-- Ends a lease in the states of the buckets that it is from: what was not used of it goes back. Answers these states.
local function settled(lease, percent, route, global_state, own_state, route_state)
  local taken, ends, count, unspent = string.match(lease, '^(%d+) (%d+) (%d+) (%d+)$')
  taken, ends, count, unspent = tonumber(taken), tonumber(ends), tonumber(count), tonumber(unspent)
  local function after(limit, state, of)
    if state == '' then return state end
    return settle[limit.algorithm](state, count, unspent, ends, taken, scaled(limit.requests, of), limit.window) or state
  end
  return after(global, global_state, 100), after(user, own_state, percent),
    route and after(route, route_state, of_caller(route, percent)) or ''
end

-- The two states of a caller's key, behind the length of the first.
local function both_of(global_state, own_state) return pack('>I2', #global_state) .. global_state .. own_state end

-- Takes from every bucket, or from none; then lends up to `more`, and of what remains one part in `share` at most. `lease` ends before, whether
-- something is taken or not. Answers as admit.lua does, and whether it took. `is_for_webhook`: the bucket that follows is in
-- another slot, and not looked at here.
local function take(verdict, caller, percent, address, bucket, name, more, share, lease, is_for_webhook)
  local route, route_key = nil, nil
  if verdict == 'ok' and bucket ~= '' then
    route = route_of(bucket)
    route_key = key_of(route, caller, address, name)
    is_for_webhook = route.scope == 'webhook'
  end
  local has_session = sub(caller, 1, 2) == 'u:'
  local own = has_session and user or ip
  local caller_key = prefix .. own.kept_as .. tag(caller)
  local states, keys = nil, nil
  local own_windows, route_windows = no_windows, no_windows
  local is_wide = not has_session and not is_for_webhook and sub(address, -5) == '::/64'
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
  local global_before, own_before, route_before = sub(both, 3, 2 + length), sub(both, 3 + length), states[2] or ''
  if lease ~= '' then
    global_before, own_before, route_before = settled(lease, percent, route, global_before, own_before, route_before)
  end

  local ok, remaining, wait, limit, global_state, global_ms = look(global, global_before, 100, states)
  local shown, least, own_state, own_ms, route_state, route_ms = 0, remaining, own_before, 0, nil, nil
  if ok and not is_for_webhook then
    shown = 1
    ok, remaining, wait, limit, own_state, own_ms = look(own, own_state, percent, states)
    least = math.min(least, remaining)
    local wide_wait, most = nil, nil
    if ok then wide_wait, most = full_window(own_windows, keys, states) end
    if wide_wait then ok, wait, limit = false, wide_wait, most end
  elseif ok and own_state ~= '' then
    own_ms = redis.call('PTTL', caller_key)
  end
  if ok and route then
    shown = 2
    ok, remaining, wait, limit, route_state, route_ms = look(route, route_before, of_caller(route, percent), states)
    least = math.min(least, remaining)
    local wide_wait, most = nil, nil
    if ok then wide_wait, most = full_window(route_windows, keys, states) end
    if wide_wait then ok, wait, limit = false, wide_wait, most end
  end
  if not ok then
    if lease ~= '' and both ~= '' then redis.call('SET', caller_key, both_of(global_before, own_before), 'KEEPTTL') end
    if lease ~= '' and route and states[2] then redis.call('SET', route_key, route_before, 'KEEPTTL') end
    return answer('limited', shown, limit, 0, wait), false
  end

  local text = answer(verdict, shown, limit, remaining, wait)
  more = math.min(more, math.floor(least / share))
  if share > usual_share and more < fewest_in_advance then more = 0 end
  if more > 0 and has_session and not keys and not is_for_webhook then
    local ms = longest_lease[global.algorithm](global_state, global.window, lease_ms)
    ms = longest_lease[own.algorithm](own_state, own.window, ms)
    if route then ms = longest_lease[route.algorithm](route_state, route.window, ms) end
    if ms >= shortest_lease then
      local ends = now + ms
      local function lent(one, state, of) return lend[one.algorithm](state, more, ends, scaled(one.requests, of), one.window) end
      global_state, global_ms = lent(global, global_state, 100)
      own_state, own_ms = lent(own, own_state, percent)
      if route then route_state, route_ms = lent(route, route_state, of_caller(route, percent)) end
      text = string.format('%s %d %d', text, more, ms)
    end
  end

  keep(caller_key, both_of(global_state, own_state), math.max(global_ms, own_ms))
  if route then keep(route_key, route_state, route_ms) end
  if keys then
    keep_caps(global, keys)
    if not is_for_webhook then keep_caps(own, keys) end
    if route then keep_caps(route, keys) end
    count_in(own_windows, keys, states)
    count_in(route_windows, keys, states)
  end
  return text, true
end

local function take_of_webhook(caller, bucket, name)
  local limit = route_of(bucket)
  local keys = { key_of(limit, caller, '', name) }
  add_caps(limit, keys[1], keys)
  local states = redis.call('MGET', list_unpack(keys))
  local ok, remaining, wait, most, state, ms = look(limit, states[1] or '', 100, states)
  if not ok then return answer('limited', 2, most, 0, wait) end
  keep(keys[1], state, ms)
  keep_caps(limit, keys)
  return answer('ok', 2, most, remaining, wait)
end

-- Ends a lease, and takes nothing.
local function settle_lease(caller, percent, address, bucket, name, lease)
  local caller_key = prefix .. user.kept_as .. tag(caller)
  local route = bucket ~= '' and route_of(bucket)
  local route_key = route and key_of(route, caller, address, name)
  local states = redis.call('MGET', caller_key, route_key or caller_key)
  local both, route_state = states[1] or '', route and states[2] or ''
  local length = both ~= '' and unpack('>I2', both) or 0
  local global_state, own_state = sub(both, 3, 2 + length), sub(both, 3 + length)
  global_state, own_state, route_state = settled(lease, percent, route, global_state, own_state, route_state)
  if both ~= '' then redis.call('SET', caller_key, both_of(global_state, own_state), 'KEEPTTL') end
  if route_state ~= '' then redis.call('SET', route_key, route_state, 'KEEPTTL') end
  return 'settled'
end

local function admit(verdict, caller, percent, address, bucket, name, more, share, lease)
  if verdict == 'settle' then return settle_lease(caller, percent, address, bucket, name, lease) end
  if verdict == 'webhook' then return take_of_webhook(caller, bucket, name) end
  if verdict == 'caller' then return (take('ok', caller, 100, address, '', '', 0, usual_share, '', true)) end
  if verdict == 'miss' then
    local wait = too_many_looks(address)
    if wait then return answer('failed', 1, failed_requests, 0, wait) end
    return answer('miss', 1, 0, 0, 0)
  end
  if verdict ~= 'ok' and verdict ~= 'anonymous' and verdict ~= 'barred' then
    local wait, count = failed(address)
    if wait then return answer('failed', 1, failed_requests, 0, wait) end
    count()
  end
  return (take(verdict, caller, percent, address, bucket, name, tonumber(more), tonumber(share), lease))
end

local answers = {}
for at = 3, #ARGV, 9 do
  answers[#answers + 1] = admit(
    ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3], ARGV[at + 4], ARGV[at + 5], ARGV[at + 6], ARGV[at + 7],
    ARGV[at + 8]
  )
end
return answers
