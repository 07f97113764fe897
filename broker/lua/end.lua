-- End an episode. ARGV: id, attempt, k, result, then the key and the id of each record that it used.
-- returns 'ok'; 'ended' where it already ended differently; 'undone' where a record is gone; 'gone' where the attempt
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
redis.call('HDEL', turns, '')                                 -- deletes nothing: so full memory does not refuse the script
redis.call('HSET', turns, 'end:' .. k, result)
return 'ok'
