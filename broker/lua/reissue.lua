-- Put groups back that hold a slot and are in no stream, with the floor that they had. ARGV: fence, seq, then groups as
-- in issue.lua; one that is in a stream, or has no slot, is passed over. returns the ids. One too many does no harm: the
-- learner asks the ledger before it uses any.
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
