-- Appends events that may be lost: no number, no chain, at most once.
-- KEYS: the log, its position hash. ARGV: fields (header, data, …).
local last = tonumber(redis.call('HGET', KEYS[2], 's'))
if not last then return 'nolog' end
local time = redis.call('TIME')
local now = (tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) - 1704067200000) * 4096
last = math.max(last + 1, now) + #ARGV / 2 - 1
redis.call('XADD', KEYS[1], 'NOMKSTREAM', string.format('%.0f-0', last), unpack(ARGV))
redis.call('HSET', KEYS[2], 's', string.format('%.0f', last))
return 'ok'
