-- Reissue groups that hold a slot and are in no stream, with their old floors. ARGV: fence, seq, then groups as in
-- issue.lua; skips those in a stream or without a slot. returns the ids. One too many does no harm: the learner checks
-- the ledger before it uses any.
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
