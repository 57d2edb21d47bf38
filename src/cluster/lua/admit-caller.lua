-- Admits requests of one caller, where Redis is a Cluster: all their buckets are in one slot. Whose token it is has been found
-- out before, as their session is in another. Nothing is taken unless every bucket allows.
--
-- KEYS[1]  the caller's bucket
-- ARGV     1 what bucket keys begin with; 2 the caller, "u:<id>" or "ip:<address>"; then six per request:
--            what was found out: 'ok', 'anonymous', 'revoked', 'expired', 'barred', or 'miss' when the session is to be loaded first;
--              'caller' and 'webhook' are the two steps of a request to a webhook, the second with "webhook:<id>" as caller
--            percent of the limits; the session, '' without one; the address
--            the route's bucket and the rest of its name, as in admit.lua
-- Answers  as admit.lua does

local caller = ARGV[2]

local function take_of_webhook(bucket, name)
  local limit = route_of(bucket)
  local keys = { key_of(limit, caller, '', name) }
  add_caps(limit, keys[1], keys)
  local states = redis.call('MGET', list_unpack(keys))
  local ok, remaining, wait, most, state, ms = look(limit, states[1] or '', 100, states)
  if not ok then return answer('limited', 2, most, 0, wait, 0, '') end
  keep(keys[1], state, ms)
  keep_caps(limit, keys)
  return answer('ok', 2, most, remaining, wait, 0, '')
end

local function admit(verdict, percent, session, address, bucket, name)
  if verdict == 'webhook' then return take_of_webhook(bucket, name) end
  if verdict == 'caller' then return (take('ok', caller, 100, '', 0, address, '', '', true)) end
  if verdict == 'barred' then
    local text, took = take('barred', caller, 100, '', 0, address, '', '')
    return took and text .. session or text
  end
  if verdict == 'miss' then
    local wait = too_many_looks(address)
    if wait then return answer('failed', 1, failed_requests, 0, wait, 0, '') end
    return answer('miss', 1, 0, 0, 0, 0, '')
  end
  if verdict ~= 'ok' and verdict ~= 'anonymous' then
    local wait, count = failed(address)
    if wait then return answer('failed', 1, failed_requests, 0, wait, 0, '') end
    count()
  end
  return (take(verdict, caller, tonumber(percent), session, 0, address, bucket, name))
end

local answers = {}
for at = 3, #ARGV, 6 do
  answers[#answers + 1] = admit(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5])
end
return answers
