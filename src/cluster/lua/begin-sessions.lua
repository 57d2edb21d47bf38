-- Counts live gateway connections in and writes the records of their sessions, which are one worker's from now on, unless
-- they are another's by now.
-- KEYS: for each the user's connections and the record. ARGV: the worker, seconds to keep both; for each the session and what its record says.
-- Answers for each the workers of its user's connections; 0 for another worker's.
local answers = {}
for i = 1, #KEYS / 2 do
  local connections, record = KEYS[2 * i - 1], KEYS[2 * i]
  local holder = redis.call('HGET', record, 'worker')
  if holder and holder ~= ARGV[1] then
    answers[i] = 0
  else
    redis.call('HSET', connections, ARGV[2 * i + 1], ARGV[1])
    redis.call('EXPIRE', connections, ARGV[2])
    redis.call('HSET', record, 'worker', ARGV[1], 'record', ARGV[2 * i + 2])
    redis.call('EXPIRE', record, ARGV[2])
    answers[i] = redis.call('HVALS', connections)
  end
end
return answers
