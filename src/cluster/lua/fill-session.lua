-- Puts what the database said of an access session into the cache (ARGV[1], for ARGV[2] seconds), unless something is there.
-- Answers 1 where that was so, else what is there. Where the mark of the look (ARGV[3]) no longer stands in KEYS[2], the session
-- was renewed or ended since it began, or it took too long: then the database has to be asked again, and the answer is 0.
if redis.call('GET', KEYS[2]) ~= ARGV[3] then return 0 end
if redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2], 'NX') then return 1 end
return redis.call('GET', KEYS[1])
