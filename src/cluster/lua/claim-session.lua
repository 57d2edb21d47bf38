-- Moves a gateway session from one worker to another, or ends it when the new worker is ''.
-- KEYS: the session's record. ARGV: the worker that holds it, the worker that takes it.
if redis.call('HGET', KEYS[1], 'worker') ~= ARGV[1] then return 0 end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('HSET', KEYS[1], 'worker', ARGV[2]) end
return 1
