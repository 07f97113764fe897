-- Put groups back that hold a slot and are in no stream, with the floor that they had. ARGV: fence, seq, then groups as
-- in issue.lua; one that is in a stream, or has no slot, is passed over. returns the ids. One too many does no harm: the
-- learner asks the ledger before it uses any.
local refused = guard()
if refused then return refused end
redis.call('ZREM', SLOTS, '')
local i, sent = 3, {}
while i <= #ARGV do
  local id, wanted, fields, following = group_at(i)
  local floor = redis.call('ZSCORE', SLOTS, id)
  local stream, entry = place_of(id)
  if floor and not (stream and exists(stream, entry)) then
    append_prompt(id, wanted, fields, floor, false)
    sent[#sent + 1] = id
  end
  i = following
end
return done(sent)
