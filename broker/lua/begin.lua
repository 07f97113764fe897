-- Count an attempt, where work begins. ARGV: stream, consumer, entry, the worker's own name.
-- returns the attempts so far, this one included; 0 if this consumer no longer has the entry.
-- Where Redis has lost the consumer group, no consumer has any.
-- XREADGROUP has counted one delivery, which is no attempt; XCLAIM without JUSTID counts each attempt.
local stream, consumer, entry = STREAMS[ARGV[1]], ARGV[2], ARGV[3]
local pending = redis.pcall('XPENDING', stream, GROUP, entry, entry, 1)
local id, is_there = header(ARGV[1], entry, 'group')
if #pending == 0 or pending[1][2] ~= consumer or not is_there then return 0 end
redis.call('XCLAIM', stream, GROUP, consumer, 0, entry)
if is_at(id, ARGV[1], entry) then
  local names = redis.call('HGET', TRIES, id)
  redis.call('HSET', TRIES, id, names and names .. ' ' .. ARGV[4] or ARGV[4])
end
return pending[1][4]
