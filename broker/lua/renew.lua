-- Renew leases. ARGV: stream, consumer, entry ...     returns the entries that this consumer still has:
-- none where Redis has lost the consumer group
local stream, consumer = STREAMS[ARGV[1]], ARGV[2]
local mine = {}
for i = 3, #ARGV do
  local pending = redis.pcall('XPENDING', stream, GROUP, ARGV[i], ARGV[i], 1)
  if #pending == 1 and pending[1][2] == consumer then
    redis.call('XCLAIM', stream, GROUP, consumer, 0, ARGV[i], 'JUSTID')
    mine[#mine + 1] = ARGV[i]
  end
end
return mine
