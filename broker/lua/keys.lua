-- Runs before every script. KEYS, in this order (broker/keys.py):
--   prompts, episodes, rollouts, scored, dead   the work streams: one entry in one of them for each group under way
--   slots    sorted set: group id -> floor; its members are what is under way
--   where    hash: group id -> "STREAM ENTRY"
--   cursor   hash: position (the next ordinal), issued, retry:ID (retries of a group), seq (learner scripts that
--            took effect)
--   run      hash: fence, version (the newest announced), status, config ...
--   weights  stream of announcements, the last 16
--   jobs     hash: entry of rollouts -> RQ job
--   tries    hash: group id -> names of the workers that began its stage, one after the other; error:ID -> the last thing
--            that went wrong there
--   retries  hash: id of a dead group that an operator wants again -> entry of its dead letter
-- Of groups whose completions are episodes, under names that are made here:
--   turns:GROUP   hash: attempt, a random token; prompt:K:KEY and asked:K:KEY ("STREAM ENTRY") of a call until its answer;
--                 turn:K:KEY, the record, or failed:K:KEY ("ATTEMPT reason"); end:K, how episode K ended. A record and an
--                 end begin with ID_BYTES that are their id
--   policy_calls, policy_calls:GENERATOR   streams of calls, with the consumer group: one header a call. The second kind
--                 is a generator's own, made by it, and expires
--
-- Full memory refuses a script at its first write or not at all, and only where that write needs room. So a script
-- that adds work opens with XADD, to be refused, and one that removes work opens with a write that needs no room.
local PREFIX = string.sub(KEYS[1], 1, -#'prompts' - 1)
local STREAMS = setmetatable(
  {prompts = KEYS[1], episodes = KEYS[2], rollouts = KEYS[3], scored = KEYS[4], dead = KEYS[5]},
  {__index = function(_, name) if name and string.match(name, '^policy_calls') then return PREFIX .. name end end})
local SLOTS, WHERE, CURSOR, RUN, WEIGHTS, JOBS = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local TRIES, RETRIES = KEYS[12], KEYS[13]
local GROUP, ID_BYTES = 'workers', 16

local function is_eval(id) return string.sub(id, 1, 5) == 'eval-' end

local function place_of(id)             -- stream and entry of a group, or nil
  local place = redis.call('HGET', WHERE, id)
  if not place then return nil end
  return string.match(place, '^(%S+) (%S+)$')
end

local function fields_of(stream, entry)             -- of an entry, by name, or nil
  local found = STREAMS[stream] and redis.call('XRANGE', STREAMS[stream], entry, entry) or {}
  if #found == 0 then return nil end
  local fields, flat = {}, found[1][2]
  for i = 1, #flat, 2 do fields[flat[i]] = fields[flat[i]] or flat[i + 1] end
  return fields
end

local function header(stream, entry, wanted)        -- a field of an entry, or nil; and whether the entry is there
  local fields = fields_of(stream, entry)
  return fields and fields[wanted], fields ~= nil
end

local function without_payload(fields)              -- its field names and values in turn
  local kept = {}
  for i = 1, #fields, 2 do
    if fields[i] ~= 'payload' then
      kept[#kept + 1] = fields[i]
      kept[#kept + 1] = fields[i + 1]
    end
  end
  return kept
end

local function exists(stream, entry)
  return STREAMS[stream] and #redis.call('XRANGE', STREAMS[stream], entry, entry) == 1
end

local function acknowledge(stream, entry)           -- scored and dead have no consumer group
  if stream ~= 'scored' and stream ~= 'dead' then redis.call('XACK', STREAMS[stream], GROUP, entry) end
end

local function is_at(id, stream, entry)            -- whether `where` has the group there
  return id and redis.call('HGET', WHERE, id) == stream .. ' ' .. entry
end

local function discard_attempt(stream, entry, worker)  -- the last begun attempt does not count
  local id = header(stream, entry, 'group')
  local names = is_at(id, stream, entry) and redis.call('HGET', TRIES, id)
  if names == worker then
    redis.call('HDEL', TRIES, id)
  elseif names and string.sub(names, -#worker - 1) == ' ' .. worker then
    redis.call('HSET', TRIES, id, string.sub(names, 1, -#worker - 2))
  end
end

local function discard_tries(id) redis.call('HDEL', TRIES, id, 'error:' .. id) end

-- For groups whose completions are episodes.
local function turns_of(id) return PREFIX .. 'turns:' .. id end

local function remove(stream, entry)                -- a call, from the stream it waits in
  redis.call('XDEL', STREAMS[stream], entry)
  acknowledge(stream, entry)
end

local function asked_at(stream, entry)              -- the turns and K:KEY of the call with this entry, or nil
  local fields = fields_of(stream, entry)
  if not (fields and fields.group and fields.k and fields.key) then return nil end
  local turns, at = turns_of(fields.group), fields.k .. ':' .. fields.key
  if redis.call('HGET', turns, 'asked:' .. at) == stream .. ' ' .. entry then return turns, at end
end

local function split(place) return string.match(place, '^(%S+) (%S+)$') end      -- "STREAM ENTRY"

local function forget(id)                           -- delete its turns and calls: at its hand-over, death or retirement
  local turns = turns_of(id)
  for _, field in ipairs(redis.call('HKEYS', turns)) do
    if string.sub(field, 1, 6) == 'asked:' then remove(split(redis.call('HGET', turns, field))) end
  end
  redis.call('UNLINK', turns)
end

local function is_floor(id, floor)                  -- whether it is the group's floor; evaluation groups have no slot
  local slot = redis.call('ZSCORE', SLOTS, id)
  if not slot then return is_eval(id) end
  return tonumber(slot) == tonumber(floor)
end

local function group_at(i)      -- of ARGV: id, stream, number of fields, field, value ...
                                -- returns id, stream, fields, where the next begins
  local fields, count = {}, tonumber(ARGV[i + 2])
  for j = i + 3, i + 2 + count do fields[#fields + 1] = ARGV[j] end
  return ARGV[i], ARGV[i + 1], fields, i + 3 + count
end

-- Append a group to `prompts` or `episodes`. Only this appends prompts. It opens with XADD, which full memory refuses.
-- A training group takes a slot when it is issued; an evaluation group has none, and a reissued one has its own.
local function append_prompt(id, stream, fields, floor, takes_slot)
  for _, part in ipairs({'floor', floor, 'policy', floor}) do fields[#fields + 1] = part end
  local entry = redis.call('XADD', STREAMS[stream], '*', unpack(fields))
  if takes_slot then redis.call('ZADD', SLOTS, floor, id) end
  redis.call('HSET', WHERE, id, stream .. ' ' .. entry)
end
