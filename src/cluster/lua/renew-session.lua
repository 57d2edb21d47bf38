-- Forgets a cached access session, and marks for a while (ARGV[1], ARGV[2] seconds) that looks which have begun are too old. A
-- session that has ended stays marked so.
redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[2])
if redis.call('GET', KEYS[1]) ~= 'revoked' then redis.call('DEL', KEYS[1]) end
