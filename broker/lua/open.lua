-- Begin an attempt at a group of episodes, and count it. ARGV: consumer, entry, id, floor, attempt, n, the worker's own name.
-- returns the attempts so far, this one included; how many of the last of these began with no more records than the
-- one before; then end:0 to end:N-1. 0 alone where this consumer no longer has the group. Repeating an attempt whose
-- reply was lost counts nothing.
local consumer, entry, id, floor, attempt, n, worker = unpack(ARGV)
local turns = turns_of(id)
local pending = redis.pcall('XPENDING', STREAMS.episodes, GROUP, entry, entry, 1)
if #pending ~= 1 or pending[1][2] ~= consumer or not is_at(id, 'episodes', entry) or not is_floor(id, floor)
   or not exists('episodes', entry) then return {0} end
local count, recorded = pending[1][4], 0
for _, field in ipairs(redis.call('HKEYS', turns)) do
  local kind = string.match(field, '^%l+:')
  if kind == 'turn:' or kind == 'end:' then recorded = recorded + 1 end
end
local known, before = string.match(redis.call('HGET', turns, 'progress') or '', '^(%d+) (%d+)$')
if redis.call('HGET', turns, 'attempt') == attempt then
  count = count - 1
else
  redis.call('XCLAIM', STREAMS.episodes, GROUP, consumer, 0, entry)
  local names = redis.call('HGET', TRIES, id)
  redis.call('HSET', TRIES, id, names and names .. ' ' .. worker or worker)
  redis.call('HSET', turns, 'attempt', attempt)
  if not known or recorded > tonumber(known) then
    before = count - 1
    redis.call('HSET', turns, 'progress', recorded .. ' ' .. before)
  end
end
before = before or count - 1        -- `progress` of a retry is missing: as if a record was just added
local found = {count, count - math.min(tonumber(before), count - 1)}
for k = 0, n - 1 do found[#found + 1] = redis.call('HGET', turns, 'end:' .. k) end
return found
