-- Notes that a cached access session is active (ARGV[1]: seconds, ten digits). One that has ended stays marked so: without the
-- mark, somebody who read it from the database before its end could put it back.
local value = redis.call('GET', KEYS[1])
if not value or value == 'revoked' then return 0 end
if ARGV[1] - string.sub(value, 66, 75) < 60 then return 0 end
redis.call('SETRANGE', KEYS[1], 65, ARGV[1])
return 1
