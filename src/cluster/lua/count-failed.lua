-- Counts one more failed token of an address, as admit.lua does.
--
-- KEYS[1]  a key in the slot of the address's buckets
-- ARGV     1 what bucket keys begin with; 2 the address, as limits count it
-- Answers  whether there were too many already

local wait, count = failed(ARGV[2])
if wait then return 1 end
count()
return 0
