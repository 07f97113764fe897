-- Keep a generator's own stream of calls for another lease, and make it where it has expired. ARGV: stream, lease in ms.
local stream = STREAMS[ARGV[1]]
redis.call('XDEL', stream, '0-1')                             -- of nothing: full memory refuses no way for a call
redis.pcall('XGROUP', 'CREATE', stream, GROUP, '0', 'MKSTREAM')
return redis.call('PEXPIRE', stream, ARGV[2])
