-- Issue again what is in no stream: recovery, and waiting. ARGV: fence, seq, then groups as in issue.lua.
-- Only an id in `slots` whose `where` is missing or names no entry, and with its slot's floor: the same group as before.
-- The ledger makes a mistake here harmless. returns the ids.
local refused = guard()
if refused then return refused end
redis.call('ZREM', SLOTS, '')
local i, sent = 3, {}
while i <= #ARGV do
  local id, count = ARGV[i], tonumber(ARGV[i + 1])
  local floor = redis.call('ZSCORE', SLOTS, id)
  local stream, entry = place_of(id)
  if floor and not (stream and exists(stream, entry)) then
    local fields = {}
    for j = i + 2, i + 1 + count do fields[#fields + 1] = ARGV[j] end
    fields[#fields + 1] = 'floor'
    fields[#fields + 1] = floor
    fields[#fields + 1] = 'policy'
    fields[#fields + 1] = floor
    redis.call('HSET', WHERE, id, 'prompts ' .. redis.call('XADD', STREAMS.prompts, '*', unpack(fields)))
    sent[#sent + 1] = id
  end
  i = i + 2 + count
end
return done(sent)
