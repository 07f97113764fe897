-- Restore issues that `cursor` has lost. ARGV: fence, seq, the lowest position that it may have, then retries: ordinal,
-- number ...
local refused = guard()
if refused then return refused end
redis.call('ZREM', SLOTS, '')
local passed = tonumber(ARGV[3]) - tonumber(redis.call('HGET', CURSOR, 'position') or '0')
if passed > 0 then
  redis.call('HINCRBY', CURSOR, 'position', passed)
  redis.call('HINCRBY', CURSOR, 'issued', passed)
end
for i = 4, #ARGV, 2 do
  local field = 'retry:' .. ARGV[i]
  local missing = tonumber(ARGV[i + 1]) - tonumber(redis.call('HGET', CURSOR, field) or '0')
  if missing > 0 then
    redis.call('HINCRBY', CURSOR, field, missing)
    redis.call('HINCRBY', CURSOR, 'issued', missing)
  end
end
return done()
