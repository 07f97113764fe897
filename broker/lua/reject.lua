-- Move an entry of no group to `dead`. ARGV: stream, entry, field, value ... of the dead letter.
-- Where its group has neither a place nor a slot, its turns and calls are deleted too.
-- returns 1, or 0 if it is gone or `where` has it after all: that is checked here and not before.
local stream, entry = ARGV[1], ARGV[2]
local id = header(stream, entry, 'group')
if id and redis.call('HGET', WHERE, id) == stream .. ' ' .. entry then return 0 end
local kind = redis.call('TYPE', STREAMS.dead).ok
if kind ~= 'stream' and kind ~= 'none' then return redis.error_reply('reject: dead is no stream but ' .. kind) end
if redis.call('XDEL', STREAMS[stream], entry) ~= 1 then return 0 end
acknowledge(stream, entry)
local fields = {}
for i = 3, #ARGV do fields[#fields + 1] = ARGV[i] end
redis.call('XADD', STREAMS.dead, '*', unpack(fields))
if stream == 'episodes' and id and not place_of(id) and not redis.call('ZSCORE', SLOTS, id) then forget(id) end
if stream == 'rollouts' then redis.call('HDEL', JOBS, entry) end
return 1
