-- Answer a call. ARGV: stream, entry, id, k, key, floor, 'turn' or 'failed', the record or the reason.
-- returns 1; 0 where nobody asks it any more: it was sampled for nothing.
local stream, entry, id, k, key, floor, kind, said = unpack(ARGV)
local turns, at = turns_of(id), k .. ':' .. key
local is_asked = redis.call('HGET', turns, 'asked:' .. at) == stream .. ' ' .. entry and is_floor(id, floor)
remove(stream, entry)
if not is_asked then return 0 end
redis.call('HDEL', turns, 'asked:' .. at, 'prompt:' .. at)
if kind == 'failed' then said = redis.call('HGET', turns, 'attempt') .. ' ' .. said end
redis.call('HSET', turns, kind .. ':' .. at, said)
redis.pcall('PUBLISH', PREFIX .. 'answered', id .. ' ' .. k)            -- a hint; who may not hear it looks every few seconds
return 1
