-- Changes what is recorded beside some shards, each unless an owner of a higher epoch has.
-- KEYS: the shards' hashes. ARGV: for each the epoch, 'replace' or 'add' and the count of fields and values, then these; or
-- 'remove' and the count of fields, then these. Answers 1 or 0 for each: whether it was changed.
local answers = {}
local at = 1
for i, key in ipairs(KEYS) do
  local epoch, action = ARGV[at], ARGV[at + 1]
  local first, last = at + 3, at + 2 + tonumber(ARGV[at + 2])
  at = last + 1
  local known = redis.call('HGET', key, '-')
  if known and tonumber(known) > tonumber(epoch) then
    answers[i] = 0
  else
    if action == 'replace' then redis.call('DEL', key) end
    local command = action == 'remove' and 'HDEL' or 'HSET'
    -- unpack has a limit.
    for from = first, last, 4000 do redis.call(command, key, unpack(ARGV, from, math.min(from + 3999, last))) end
    -- Only who writes everything may say that nothing is missing.
    if known or action == 'replace' then redis.call('HSET', key, '-', epoch) end
    answers[i] = 1
  end
end
return answers
