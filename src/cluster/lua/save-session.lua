-- Writes a gateway session's record, unless it is another worker's by now.
-- KEYS: the record. ARGV: the worker that writes, the record, seconds to keep it.
local holder = redis.call('HGET', KEYS[1], 'worker')
if holder and holder ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'worker', ARGV[1], 'record', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
