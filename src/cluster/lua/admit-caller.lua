-- Admits requests of one caller, where Redis is a Cluster: all his buckets are in one slot. Whose token it is has been found
-- out before, as his session is in another. Nothing is taken unless every bucket allows.
--
-- KEYS[1]  the caller's bucket
-- ARGV     1 what bucket keys begin with; 2 the caller, "u:<id>" or "ip:<address>"; then six per request:
--            what was found out: 'ok', 'anonymous', 'revoked', 'expired', or 'miss' when the session is to be loaded first
--            percent of the limits; the session, '' without one; the address
--            the route's bucket and the rest of its name, as in admit.lua
-- Answers  as admit.lua does

local caller = ARGV[2]

local function admit(verdict, percent, session, address, bucket, name)
  if verdict ~= 'ok' and verdict ~= 'anonymous' then
    local wait, count = failed(address)
    if wait then return answer('failed', 1, failed_requests, 0, wait, 0, '') end
    if verdict == 'miss' then return answer('miss', 1, 0, 0, 0, 0, '') end
    count()
  end
  return (take(verdict, caller, tonumber(percent), session, 0, address, bucket, name))
end

local answers = {}
for at = 3, #ARGV, 6 do
  answers[#answers + 1] = admit(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5])
end
return answers
