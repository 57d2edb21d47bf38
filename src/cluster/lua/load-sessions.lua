-- Reads gateway sessions' records.
-- KEYS: the records. Answers for each the worker that holds it and what it says; false where there is none.
local answers = {}
for i, record in ipairs(KEYS) do answers[i] = redis.call('HMGET', record, 'worker', 'record') end
return answers
