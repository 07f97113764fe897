-- Uncount an attempt: the work is put off, and this consumer keeps the entry. ARGV: stream, consumer, entry, the
-- worker's name.
-- returns 1; 0 if this consumer no longer has the entry. The lease begins again.
local stream, consumer, entry = STREAMS[ARGV[1]], ARGV[2], ARGV[3]
local pending = redis.pcall('XPENDING', stream, GROUP, entry, entry, 1)
if #pending ~= 1 or pending[1][2] ~= consumer then return 0 end
redis.call('XCLAIM', stream, GROUP, consumer, 0, entry, 'RETRYCOUNT', math.max(1, pending[1][4] - 1), 'JUSTID')
discard_attempt(ARGV[1], entry, ARGV[4])
return 1
