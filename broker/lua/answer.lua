-- Answer a call. ARGV: stream, entry, id, k, key, floor, 'turn' or 'failed', the record or the reason.
-- returns 1; 0 where nobody waits for the answer any more.
local stream, entry, id, k, key, floor, kind, said = unpack(ARGV)
local turns, at = turns_of(id), k .. ':' .. key
local is_asked = redis.call('HGET', turns, 'asked:' .. at) == stream .. ' ' .. entry and is_floor(id, floor)
if is_asked then redis.call('HDEL', turns, 'asked:' .. at, 'prompt:' .. at) end
if not asked_at(stream, entry) then remove(stream, entry) end           -- a newer call may have the same entry id
if not is_asked then return 0 end
if kind == 'failed' then said = redis.call('HGET', turns, 'attempt') .. ' ' .. said end
redis.call('HSET', turns, kind .. ':' .. at, said)
redis.pcall('PUBLISH', PREFIX .. 'answered', id .. ' ' .. k)            -- a hint; others look every few seconds
return 1
