-- Admits requests: who asks, and whether the limits let them. Nothing is taken unless every bucket allows.
--
-- KEYS[i]  the access session of the i-th request's token, as tokens.ts writes it; unused without a token
-- ARGV     1 what bucket keys begin with; then five per request:
--            the address, as limits count it
--            who: '' nobody, on an open route; '-' nobody, where somebody is needed; '!' a token that cannot be right;
--              else the SHA-256 of the token's secret
--            where the request comes from, where a token is good only there; else ''
--            the route's bucket: '' or "algorithm requests burst window scope", and " requests:window" for each cap
--            the rest of that bucket's name
-- Answers  one per request: 'ok' with the session, 'barred' with that of an account that is kept out, 'limited', 'failed', 'miss',
--          or what is wrong with the token: "verdict bucket limit remaining wait now touch session": milliseconds; bucket 0 global, 1 user
--          or address, 2 route, 3 none, as limits do not hold for them; the last one looked at, or the first that refused.
--
-- The names of buckets depend on what the session says, so they are not among KEYS. On Redis Cluster, where the session
-- and the buckets are in several slots, admit-caller.lua does this in two steps.

-- Whether a session, as JSON, began there, or is a bot's. Quotes inside of a JSON string have a backslash
-- before them, so that no name can say so.
local function is_at_origin(session, origin)
  return string.find(session, '"origin":"' .. origin .. '"', 1, true) or string.find(session, '"bot":true', 1, true)
end

local sessions = redis.call('MGET', list_unpack(KEYS))
local touched = {}

local function admit(session_key, cached, address, who, origin, bucket, name)
  local verdict, caller, session, percent, touch = 'ok', 'ip:' .. address, '', 100, 0
  local barred = nil

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
        local found = sub(value, from)
        local until_then = sub(found, 1, 16) == '{"barred_until":' and string.match(found, '^%d+', 17)
        if origin ~= '' and not is_at_origin(found, origin) then
          verdict = 'revoked'
        elseif until_then and tonumber(until_then) > seconds then
          verdict, barred = 'barred', found
        else
          percent, caller, session = tonumber(digits), 'u:' .. user, found
          if seconds - tonumber(sub(value, 66, 75)) >= 60 and not touched[session_key] then touch = 1 end
        end
      end
    else
      verdict = 'revoked'
    end
    if who ~= '!' and not value then
      local wait = too_many_looks(address)
      if wait then return answer('failed', 1, failed_requests, 0, wait, 0, '') end
      return answer('miss', 1, 0, 0, 0, 0, '')
    end
    if verdict ~= 'ok' and not barred then
      local wait, count = failed(address)
      if wait then return answer('failed', 1, failed_requests, 0, wait, 0, '') end
      count()
    end
  end

  local text, took
  if sub(session, 1, 15) == '{"bypass":true,' then text, took = answer('ok', 3, 0, 0, 0, touch, session), true
  else text, took = take(verdict, caller, percent, session, touch, address, bucket, name) end
  -- The HTTP server says what bars the account; until then only the address has paid.
  if took and barred then text = text .. barred end
  if took and touch == 1 then
    redis.call('SETRANGE', session_key, 65, string.format('%010d', seconds))
    touched[session_key] = true
  end
  return text
end

local answers = {}
for i = 1, #KEYS do
  local at = 5 * i
  answers[i] = admit(KEYS[i], sessions[i], ARGV[at - 3], ARGV[at - 2], ARGV[at - 1], ARGV[at], ARGV[at + 1])
end
return answers
