-- Admit one request to the reward server, in the run `api`. ARGV: id, field, value ... of its entry on `rollouts`.
-- It holds a slot, as a training group does, so that the same scripts move it; its floor is 0. There is no budget here:
-- the server limits how many may wait. Harmless when repeated.
local id = ARGV[1]
if redis.call('HEXISTS', WHERE, id) == 1 then return 0 end
local fields = {}
for i = 2, #ARGV do fields[#fields + 1] = ARGV[i] end
local entry = redis.call('XADD', STREAMS.rollouts, '*', unpack(fields))
redis.call('ZADD', SLOTS, 0, id)
redis.call('HSET', WHERE, id, 'rollouts ' .. entry)
return 1
