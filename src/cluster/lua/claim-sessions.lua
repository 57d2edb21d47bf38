-- Moves gateway sessions from one worker to another, or ends them where the new worker is ''.
-- KEYS: their records. ARGV: for each the worker that holds it, the worker that takes it.
-- Answers 1 for each that was its holder's.
local answers = {}
for i, record in ipairs(KEYS) do
  local from, to = ARGV[2 * i - 1], ARGV[2 * i]
  answers[i] = 0
  if redis.call('HGET', record, 'worker') == from then
    if to == '' then redis.call('DEL', record) else redis.call('HSET', record, 'worker', to) end
    answers[i] = 1
  end
end
return answers
