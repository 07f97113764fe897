-- End an episode with what it used. ARGV: id, attempt, k, result, then the key and the id of each record.
-- returns 'ok'; 'ended' where it ended otherwise; 'undone' where a record is not there any more; 'gone' where the attempt
-- is not the newest.
local id, attempt, k, result = unpack(ARGV, 1, 4)
local turns = turns_of(id)
if redis.call('HGET', turns, 'attempt') ~= attempt then return 'gone' end
local ended = redis.call('HGET', turns, 'end:' .. k)
if ended then return ended == result and 'ok' or 'ended' end
for i = 5, #ARGV, 2 do
  local record = redis.call('HGET', turns, 'turn:' .. k .. ':' .. ARGV[i])
  if not record or string.sub(record, 1, ID_BYTES) ~= ARGV[i + 1] then return 'undone' end
end
redis.call('HDEL', turns, '')                                 -- of nothing: full memory refuses no end
redis.call('HSET', turns, 'end:' .. k, result)
return 'ok'
