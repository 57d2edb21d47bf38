-- Puts what the database said of an access session into the cache (ARGV[1], for ARGV[2] seconds), unless something is there,
-- or the session was renewed (KEYS[2]) since the look began (ARGV[3]): then the database has to be asked again.
if (redis.call('GET', KEYS[2]) or '') ~= ARGV[3] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2], 'NX')
return 1
