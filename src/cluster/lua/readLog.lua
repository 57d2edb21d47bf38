-- Entries of a delivery log or an inbox after one, in order, until they have reached so many bytes.
-- KEYS: the stream. ARGV: a position or an id, bytes, most entries.
local from, most_bytes, most = '(' .. ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local entries, bytes = {}, 0
while bytes < most_bytes and #entries < most do
  -- How large entries are is known only when they are read: a few at a time, more after small ones.
  local isSmall = #entries > 0 and bytes < #entries * 4096
  local count = math.min(isSmall and 16 or 4, most - #entries)
  local found = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', count)
  for _, entry in ipairs(found) do
    entries[#entries + 1] = entry
    for _, field in ipairs(entry[2]) do bytes = bytes + #field end
  end
  if #found < count then break end
  from = '(' .. entries[#entries][1]
end
return entries
