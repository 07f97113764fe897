-- Write the fence again into a Redis that has lost writes. ARGV: fence, the last seq that was seen.
-- The new seq is above all seen before, so that an older copy of these keys, such as a replica's, never passes.
-- returns 'ok', seq, and whether there was a cursor; or 'fenced' and the fence.
local fence = tonumber(redis.call('HGET', RUN, 'fence') or '0')
if fence > tonumber(ARGV[1]) then return {'fenced', fence} end
local seq = math.max(tonumber(redis.call('HGET', CURSOR, 'seq') or '0'), tonumber(ARGV[2])) + 1
local was_there = redis.call('EXISTS', CURSOR)
redis.call('ZREM', SLOTS, '')
redis.call('HSET', RUN, 'fence', ARGV[1])
redis.call('HSET', CURSOR, 'seq', seq)
return {'ok', seq, was_there}
