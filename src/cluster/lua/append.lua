-- Appends what several shards publish to one delivery log, each shard only if its chain is unbroken.
-- KEYS: the log, its position hash, the inbox of the worker whose log it is.
-- ARGV: 'ring' to wake that worker, or ''; then per shard: shard, epoch, number, the number sent to this log before it ('' skips the check: a declared gap), count of
--       fields, fields (header, data, header, data, …).
-- Answers one word a shard: ok, dup, stale, nolog, or "link <position>"; and, of a log that there is, the last position before
-- and the last one now: what was appended stands between them, and nothing else does.
local log, position = KEYS[1], KEYS[2]
local last = tonumber(redis.call('HGET', position, 's'))
local from = last
local answers, fields, reached_now, moved = {}, {}, {}, {}
local i = 2
while i <= #ARGV do
  local shard, epoch, number, before, count = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), ARGV[i + 3], tonumber(ARGV[i + 4])
  local first = i + 5
  i = first + count
  local answer = 'ok'
  if not last then
    answer = 'nolog'
  else
    local at = redis.call('HMGET', position, 'n' .. shard, 'e' .. shard)
    local reached, highest = reached_now[shard] or tonumber(at[1] or '0'), tonumber(at[2] or '0')
    if epoch < highest then
      answer = 'stale'
    elseif number <= reached then
      answer = 'dup'
    elseif before ~= '' and tonumber(before) ~= reached then
      answer = 'link ' .. string.format('%.0f', reached)
    else
      reached_now[shard] = number
      moved[#moved + 1] = 'n' .. shard
      moved[#moved + 1] = ARGV[first - 3]
      moved[#moved + 1] = 'e' .. shard
      moved[#moved + 1] = ARGV[first - 4]
      for f = first, first + count - 1 do fields[#fields + 1] = ARGV[f] end
    end
  end
  answers[#answers + 1] = answer
end
if #fields > 0 then
  local time = redis.call('TIME')
  local now = (tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) - 1704067200000) * 4096
  local head = 1
  while head <= #fields do
    -- An entry is read as a whole: one of several events holds 256 KiB at most. unpack has a limit, too.
    local to, bytes = head + 1, #fields[head] + #fields[head + 1]
    while to < #fields and to - head < 3999 do
      bytes = bytes + #fields[to + 1] + #fields[to + 2]
      if bytes > 262144 then break end
      to = to + 2
    end
    last = math.max(last + 1, now) + (to - head + 1) / 2 - 1
    if not redis.call('XADD', log, 'NOMKSTREAM', string.format('%.0f-0', last), unpack(fields, head, to)) then return { 'nolog' } end
    head = to + 1
  end
  -- Only now: a script that fails is not undone, and a position must not name what does not stand in the log.
  for m = 1, #moved, 2 do redis.call('HSET', position, moved[m], moved[m + 1]) end
  redis.call('HSET', position, 's', string.format('%.0f', last))
  if ARGV[1] == 'ring' then redis.call('XADD', KEYS[3], 'NOMKSTREAM', '*', 'l', string.format('[%.0f]', last)) end
end
if last then
  answers[#answers + 1] = string.format('%.0f', from)
  answers[#answers + 1] = string.format('%.0f', last)
end
return answers
