-- Issue an evaluation round, or its missing groups. ARGV: fence, seq, version, then the groups as in issue.lua.
-- They take no slot and no position: evaluation never delays training.
local refused = guard()
if refused then return refused end
local i, sent = 4, 0
while i <= #ARGV do
  local id, wanted, fields, following = group_at(i)
  local stream, entry = place_of(id)
  if not (stream and exists(stream, entry)) then
    append_prompt(id, wanted, fields, ARGV[3], false)
    sent = sent + 1
  end
  i = following
end
if sent == 0 then return {'ok', tonumber(redis.call('HGET', CURSOR, 'seq') or '0'), 0} end
return done(sent)
