-- Notes how far PostgreSQL was seen to be, or begins another lineage.
-- KEYS: the hash with the name of the lineage, the system, the tables, the transaction and the row.
-- ARGV: the lineage's name as the caller knows it, that of the next one or "", system or "", transaction, row or "", tables or "".
-- Answers the name of the lineage from now on. Under another name than the caller's nothing was noted.
local name = redis.call('HGET', KEYS[1], 'name') or ''
if name ~= ARGV[1] then return name end
if ARGV[2] ~= '' then
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'name', ARGV[2])
  name = ARGV[2]
end
if ARGV[3] ~= '' then redis.call('HSETNX', KEYS[1], 'system', ARGV[3]) end
if ARGV[6] ~= '' then redis.call('HSETNX', KEYS[1], 'tables', ARGV[6]) end
local before = tonumber(redis.call('HGET', KEYS[1], 'transaction') or '0')
if tonumber(ARGV[4]) > before then redis.call('HSET', KEYS[1], 'transaction', ARGV[4]) end
if ARGV[5] ~= '' then redis.call('HSET', KEYS[1], 'row', ARGV[5]) end
return name
