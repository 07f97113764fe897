-- Let an evaluation round in, or what is missing of it. ARGV: fence, seq, version, then the groups as in issue.lua.
-- No slot and no position: evaluation never holds training back.
local refused = guard()
if refused then return refused end
local i, sent = 4, 0
while i <= #ARGV do
  local id, count = ARGV[i], tonumber(ARGV[i + 1])
  local stream, entry = place_of(id)
  if not (stream and exists(stream, entry)) then
    local fields = {}
    for j = i + 2, i + 1 + count do fields[#fields + 1] = ARGV[j] end
    fields[#fields + 1] = 'floor'
    fields[#fields + 1] = ARGV[3]
    fields[#fields + 1] = 'policy'
    fields[#fields + 1] = ARGV[3]
    local added = redis.call('XADD', STREAMS.prompts, '*', unpack(fields))
    redis.call('HSET', WHERE, id, 'prompts ' .. added)
    sent = sent + 1
  end
  i = i + 2 + count
end
if sent == 0 then return {'ok', tonumber(redis.call('HGET', CURSOR, 'seq') or '0'), 0} end
return done(sent)
