-- Count retries that the ledger knows and a forgetful `cursor` does not. ARGV: fence, seq, then ordinal, number ...
local refused = guard()
if refused then return refused end
redis.call('ZREM', SLOTS, '')
for i = 3, #ARGV, 2 do
  local field = 'retry:' .. ARGV[i]
  local missing = tonumber(ARGV[i + 1]) - tonumber(redis.call('HGET', CURSOR, field) or '0')
  if missing > 0 then
    redis.call('HINCRBY', CURSOR, field, missing)
    redis.call('HINCRBY', CURSOR, 'issued', missing)
  end
end
return done()
