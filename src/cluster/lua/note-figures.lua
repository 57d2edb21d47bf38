-- Adds what one process did in one span of time to what all did, and notes the process.
-- KEYS: the hash of the span, the hash of the processes.
-- ARGV: seconds that the span is kept, the process, now and the seconds a process is kept, what there is to say of it;
--       then "+" or ">", field and value: added, or kept if it is the largest.
for i = 6, #ARGV, 3 do
  if ARGV[i] == '+' then
    redis.call('HINCRBYFLOAT', KEYS[1], ARGV[i + 1], ARGV[i + 2])
  else
    local before = tonumber(redis.call('HGET', KEYS[1], ARGV[i + 1]))
    if not before or before < tonumber(ARGV[i + 2]) then redis.call('HSET', KEYS[1], ARGV[i + 1], ARGV[i + 2]) end
  end
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
-- "<Unix seconds> <JSON>"
local known = redis.call('HGETALL', KEYS[2])
for i = 1, #known, 2 do
  if tonumber(string.match(known[i + 1], '^%d+')) + tonumber(ARGV[4]) < tonumber(ARGV[3]) then redis.call('HDEL', KEYS[2], known[i]) end
end
redis.call('HSET', KEYS[2], ARGV[2], string.format('%.0f', ARGV[3]) .. ' ' .. ARGV[5])
redis.call('EXPIRE', KEYS[2], ARGV[1])
return 1
