-- Appends events that may be lost: no number, no chain, at most once.
-- KEYS: the log, its position hash, the inbox of the worker whose log it is.
-- ARGV: 'ring' to wake that worker, or ''; then fields (header, data, …).
-- Answers the last position before and the last one now, or nil when there is no such log.
local from = tonumber(redis.call('HGET', KEYS[2], 's'))
if not from then return nil end
local time = redis.call('TIME')
local now = (tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) - 1704067200000) * 4096
local last = math.max(from + 1, now) + (#ARGV - 1) / 2 - 1
if not redis.call('XADD', KEYS[1], 'NOMKSTREAM', string.format('%.0f-0', last), unpack(ARGV, 2)) then return nil end
redis.call('HSET', KEYS[2], 's', string.format('%.0f', last))
if ARGV[1] == 'ring' then redis.call('XADD', KEYS[3], 'NOMKSTREAM', '*', 'l', string.format('[%.0f]', last)) end
return { string.format('%.0f', from), string.format('%.0f', last) }
