-- Marks an access session as ended, for ARGV[1] seconds. A look that has begun fills nothing (KEYS[2]), however long it takes:
-- no other look ever has its mark.
redis.call('SET', KEYS[1], 'revoked', 'EX', ARGV[1])
redis.call('DEL', KEYS[2])
