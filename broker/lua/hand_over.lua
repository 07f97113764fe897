-- Exchange an entry for its result, the commit of every stage: the result of the worker that deletes the entry counts.
-- A second worker, after a retry or an expired lease, finds nothing to delete and changes nothing.
-- ARGV: source, entry, id, destination, floor, attempt, ends, field, value ...
-- returns 1, or 0 if another result counted
-- attempt, ends: of a group of `episodes`, '' of others. To `rollouts` its ends must be these, ID_BYTES each,
-- concatenated, and the attempt must be the newest, unless none is given.
local source, entry, id, dest, floor, attempt, ends = unpack(ARGV, 1, 7)

-- All checks come before the first write.
if (#ARGV - 7) % 2 ~= 0 or #ARGV < 9 or #ARGV > 207 then return redis.error_reply('hand_over: fields must be pairs') end
for _, stream in ipairs({dest, 'dead'}) do
  local kind = STREAMS[stream] and redis.call('TYPE', STREAMS[stream]).ok
  if kind ~= 'stream' and kind ~= 'none' then
    return redis.error_reply('hand_over: ' .. stream .. ' is no stream but ' .. tostring(kind))
  end
end

if redis.call('HGET', WHERE, id) ~= source .. ' ' .. entry then return 0 end
local slot = redis.call('ZSCORE', SLOTS, id)
if not slot and not is_eval(id) then return 0 end
local fields, at = {}, nil                                      -- at: the result's own floor
for i = 8, #ARGV do
  fields[#fields + 1] = ARGV[i]
  if i % 2 == 1 and ARGV[i - 1] == 'floor' then at = #fields end
end
local function is_slots(value) return tonumber(value or '') == tonumber(slot) end
if slot then
  -- An older incarnation of this id may have had the same entry id. But where the entry's own floor differs from its
  -- slot's, the entry was damaged: it would stay for ever, so it may go to `dead`, with the slot's floor.
  if not is_slots(floor) and (dest ~= 'dead' or is_slots(header(source, entry, 'floor'))) then return 0 end
  if dest == 'dead' and at then fields[at] = slot end
  if dest ~= 'dead' and not is_slots(fields[at]) then
    return redis.error_reply('hand_over: the result of group ' .. id .. ' has floor ' .. (fields[at] or '?') ..
                             ', and its slot has ' .. slot)
  end
end

if source == 'episodes' then
  local turns = turns_of(id)
  if (attempt ~= '' or dest ~= 'dead') and redis.call('HGET', turns, 'attempt') ~= attempt then return 0 end
  if dest ~= 'dead' then
    for k = 0, #ends / ID_BYTES - 1 do
      local said = redis.call('HGET', turns, 'end:' .. k)
      if not said or string.sub(said, 1, ID_BYTES) ~= string.sub(ends, k * ID_BYTES + 1, (k + 1) * ID_BYTES) then
        return 0
      end
    end
  end
end
if redis.call('XDEL', STREAMS[source], entry) ~= 1 then return 0 end
acknowledge(source, entry)
local added = redis.pcall('XADD', STREAMS[dest], '*', unpack(fields))
if type(added) == 'table' and added.err then
  local reason = dest .. ' refused the result: ' .. added.err
  dest = 'dead'
  added = redis.call('XADD', STREAMS.dead, '*', 'v', fields[2], 'group', id, 'stage', source, 'reason', reason,
                     'floor', slot or floor, 'attempts', 0)
end
redis.call('HSET', WHERE, id, dest .. ' ' .. added)
discard_tries(id)
if source == 'rollouts' then redis.call('HDEL', JOBS, entry) end
if source == 'episodes' then forget(id) end
return 1
