-- Where a delivery log begins: the id of its first entry, how many fields that has, and the first of them, which is short;
-- nil without such a log.
-- KEYS: the log.
local entry = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
if not entry then return nil end
return { entry[1], #entry[2], entry[2][1] }
