-- Issue new groups. ARGV: fence, seq, position, new position, budget, newest version that the learner knows, then for
-- each group: id, stream, number of fields, field, value ...
-- A group ID-rN is retry N of one that died or was over: an operator's request and the dead letter are deleted, `cursor`
-- counts the retry.
local refused = guard()
if refused then return refused end
local position = tonumber(redis.call('HGET', CURSOR, 'position') or '0')
if position ~= tonumber(ARGV[3]) then return {'moved', position} end

local groups, seen, retries, i = {}, {}, 0, 7
while i <= #ARGV do
  local id, stream, fields, following = group_at(i)
  local base, number = string.match(id, '^(%d+)%-r(%d+)$')
  if base then
    local counted = tonumber(redis.call('HGET', CURSOR, 'retry:' .. base) or '0')
    if counted >= tonumber(number) then return {'moved', position} end         -- its reply was lost
    if counted < number - 1 then return {'known', id} end
    retries = retries + 1
  end
  if seen[id] or redis.call('ZSCORE', SLOTS, id) or redis.call('HEXISTS', WHERE, id) == 1 then return {'known', id} end
  seen[id] = true
  groups[#groups + 1] = {id, stream, fields, base, number}
  i = following
end
local slots = redis.call('ZCARD', SLOTS)
if slots + #groups > tonumber(ARGV[5]) then return {'full', slots} end

-- The floor is read here: read before the script, it could be stale by now, and lag would have no bound.
local floor = math.max(tonumber(redis.call('HGET', RUN, 'version') or '0'), tonumber(ARGV[6]))
for _, group in ipairs(groups) do
  local id, stream, fields, base, number = unpack(group, 1, 5)
  append_prompt(id, stream, fields, floor, true)
  if base then
    redis.call('HSET', CURSOR, 'retry:' .. base, number)
    local dead = number == '1' and base or base .. '-r' .. (number - 1)
    local dead_letter = redis.call('HGET', RETRIES, dead)
    if dead_letter then
      redis.call('XDEL', STREAMS.dead, dead_letter)
      redis.call('HDEL', RETRIES, dead)
    end
  end
end
redis.call('HSET', CURSOR, 'position', ARGV[4])
redis.call('HINCRBY', CURSOR, 'issued', tonumber(ARGV[4]) - position + retries)
return done(floor)
