-- Claim the run at a learner's start. ARGV: the newest fence in its journal. returns the fence and seq.
redis.call('ZREM', SLOTS, '')
local fence = math.max(tonumber(redis.call('HGET', RUN, 'fence') or '0'), tonumber(ARGV[1])) + 1
redis.call('HSET', RUN, 'fence', fence)
return {fence, tonumber(redis.call('HGET', CURSOR, 'seq') or '0')}
