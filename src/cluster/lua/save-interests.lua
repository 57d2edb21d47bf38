-- Changes what is known of a shard's interests, unless an owner of a higher epoch has.
-- KEYS: the shard's interests. ARGV: epoch, 'replace' or 'add' with fields and values, or 'remove' with fields.
local key, epoch, action = KEYS[1], ARGV[1], ARGV[2]
local known = redis.call('HGET', key, '-')
if known and tonumber(known) > tonumber(epoch) then return 0 end
if action == 'replace' then redis.call('DEL', key) end
local command = action == 'remove' and 'HDEL' or 'HSET'
-- unpack has a limit.
for from = 3, #ARGV, 4000 do redis.call(command, key, unpack(ARGV, from, math.min(from + 3999, #ARGV))) end
-- Only who writes everything may say that nothing is missing.
if known or action == 'replace' then redis.call('HSET', key, '-', epoch) end
return 1
