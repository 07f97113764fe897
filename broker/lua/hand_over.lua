-- The commit of every stage: an entry is exchanged for its result, and whoever deletes it is the one whose result counts.
-- Who comes second, after a retry or a lease that ran out, finds nothing to delete and changes nothing.
-- ARGV: source, entry, id, destination, floor, attempt, ends, field, value ...
-- returns 1, or 0 if someone else's result counted
-- attempt, ends: of a group of `episodes`, '' of others. To `rollouts` its ends have to be these, ID_BYTES of each, one
-- behind the other, and every hand-over of it has to be of the attempt that is the newest, unless it names none.
local source, entry, id, dest, floor, attempt, ends = unpack(ARGV, 1, 7)

-- Everything that could fail is looked at before anything is changed.
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
local fields, at = {}, nil                                      -- at: of the result's own floor
for i = 8, #ARGV do
  fields[#fields + 1] = ARGV[i]
  if i % 2 == 1 and ARGV[i - 1] == 'floor' then at = #fields end
end
local function is_slots(value) return tonumber(value or '') == tonumber(slot) end
if slot then
  -- An older incarnation of this id may have had the same entry id. But where the entry itself has another floor than its slot,
  -- somebody has spoilt it: it would stay for ever, so it may go to `dead`, with the floor that it should have had.
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
