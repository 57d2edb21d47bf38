-- Counts a gateway connection of a user out, unless its session has one on another worker by now.
-- KEYS: the user's connections. ARGV: the session, the worker whose connection has ended.
-- Answers the worker of each that is left.
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1]) end
return redis.call('HVALS', KEYS[1])
