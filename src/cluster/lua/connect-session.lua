-- Counts a live gateway connection of a user in.
-- KEYS: the user's connections. ARGV: the session, its worker, seconds to keep them.
-- Answers the worker of each of them.
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return redis.call('HVALS', KEYS[1])
