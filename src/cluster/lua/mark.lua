-- Appends a join marker: reserves a range of positions, above all that was given out and above `floor`, into which another
-- log's events are mapped for the sessions that move here.
-- KEYS: the log, its position hash. ARGV: floor, length of the range, header.
-- Answers the first position of the range, or nil when there is no such log or no such range.
local last = tonumber(redis.call('HGET', KEYS[2], 's'))
if not last then return nil end
local time = redis.call('TIME')
local now = (tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) - 1704067200000) * 4096
-- A floor from far ahead would use up the positions; an hour is more than any log spans.
if tonumber(ARGV[1]) > math.max(last, now) + 3600000 * 4096 then return nil end
local first = math.max(last, now, tonumber(ARGV[1])) + 1
last = first + tonumber(ARGV[2]) - 1
redis.call('XADD', KEYS[1], 'NOMKSTREAM', string.format('%.0f-0', last), ARGV[3], '')
redis.call('HSET', KEYS[2], 's', string.format('%.0f', last))
return string.format('%.0f', first)
