-- Announce new weights to the generators. ARGV: fence, seq, version, field, value ...
local refused = guard()
if refused then return refused end
local newest = tonumber(redis.call('HGET', RUN, 'version') or '-1')
if tonumber(ARGV[3]) < newest then return {'older', newest} end
redis.call('XTRIM', WEIGHTS, 'MAXLEN', 15)
local fields = {}
for i = 4, #ARGV do fields[#fields + 1] = ARGV[i] end
redis.call('XADD', WEIGHTS, '*', unpack(fields))
redis.call('HSET', RUN, 'version', ARGV[3])
return done()
