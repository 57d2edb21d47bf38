-- Notes that a look at an access session begins (ARGV[1], kept for ARGV[2] seconds), and answers with its mark: fill-session
-- takes what was found only while that stands. Looks that begin one after the other share one.
local mark = redis.call('GET', KEYS[1])
if mark then
  redis.call('EXPIRE', KEYS[1], ARGV[2])
  return mark
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return ARGV[1]
