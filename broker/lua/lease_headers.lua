-- Lease new entries to this consumer, without their payloads. ARGV: stream, consumer, count.
-- returns the entries as XRANGE gives them, without the field `payload`. Does not wait.
local reply = redis.call('XREADGROUP', 'GROUP', GROUP, ARGV[2], 'COUNT', ARGV[3], 'STREAMS', STREAMS[ARGV[1]], '>')
if not reply then return {} end
local entries = {}
for _, found in ipairs(reply[1][2]) do
  entries[#entries + 1] = {found[1], without_payload(found[2])}
end
return entries
