-- Publish the run's status in the hash `run`. ARGV: fence, field, value ...
-- returns 1, or 0 if a newer learner has the run.
-- Guarded by the fence alone, so that it also works on a Redis that went back. A learner that ends before its claim has
-- fence 0, and has deleted the status before it (broker/joining.py): a status that is there now is of a newer learner.
local fence = tonumber(redis.call('HGET', RUN, 'fence') or '0')
local own = tonumber(ARGV[1])
if own < fence and (own > 0 or redis.call('HEXISTS', RUN, 'status') == 1) then return 0 end
redis.call('ZREM', SLOTS, '')
for i = 2, #ARGV, 2 do redis.call('HSET', RUN, ARGV[i], ARGV[i + 1]) end
return 1
