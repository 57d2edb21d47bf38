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
-- The names of buckets depend on what the session says, so they are not among KEYS. On Redis Cluster, where the session
-- and the buckets are in several slots, admit-caller.lua does this in two steps.

local sessions = redis.call('MGET', list_unpack(KEYS))
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
      local wait, count = failed(address)
      if wait then return answer('failed', 1, failed_requests, 0, wait, 0, '') end
      if who ~= '!' and not value then return answer('miss', 1, 0, 0, 0, 0, '') end
      count()
    end
  end

  local text, took = take(verdict, caller, percent, session, touch, address, bucket, name)
  if took and touch == 1 then
    redis.call('SETRANGE', session_key, 65, string.format('%010d', seconds))
    touched[session_key] = true
  end
  return text
end

local answers = {}
for i = 1, #KEYS do
  local at = 4 * i
  answers[i] = admit(KEYS[i], sessions[i], ARGV[at - 2], ARGV[at - 1], ARGV[at], ARGV[at + 1])
end
return answers
