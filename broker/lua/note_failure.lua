-- Record the error of a group that will be tried again. ARGV: stream, entry, text.
redis.call('HDEL', TRIES, '')
local id = header(ARGV[1], ARGV[2], 'group')
if is_at(id, ARGV[1], ARGV[2]) then redis.call('HSET', TRIES, 'error:' .. id, ARGV[3]) end
return 1
