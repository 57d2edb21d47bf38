-- Notes that cached access sessions are active (ARGV: for each key the seconds, ten digits). Answers for each 1 where nobody else
-- has said so within a minute, else 0. One that has ended stays marked so: without the mark, somebody who read it from the
-- database before its end could put it back.
local noted = {}
for i, key in ipairs(KEYS) do
  local value = redis.call('GET', key)
  if not value or value == 'revoked' or ARGV[i] - string.sub(value, 66, 75) < 60 then
    noted[i] = 0
  else
    redis.call('SETRANGE', key, 65, ARGV[i])
    noted[i] = 1
  end
end
return noted
