-- Take over entries whose lease has expired. ARGV: stream, consumer, lease in ms, cursor, count, and 'headers'
-- or 'all': which fields to return.
-- returns the next cursor, then the entries as XRANGE gives them, without `payload` for 'headers'. JUSTID: no attempt
-- is counted.
local stream = STREAMS[ARGV[1]]
local reply = redis.call('XAUTOCLAIM', stream, GROUP, ARGV[2], ARGV[3], ARGV[4], 'COUNT', ARGV[5], 'JUSTID')
local entries = {}
for _, id in ipairs(reply[2]) do
  local found = redis.call('XRANGE', stream, id, id)
  if #found == 1 then
    local fields = found[1][2]
    entries[#entries + 1] = {id, ARGV[6] == 'headers' and without_payload(fields) or fields}
  else                          -- deleted meanwhile: Redis 6.2 would offer its id at every claim
    redis.call('XACK', stream, GROUP, id)
  end
end
return {reply[1], entries}
