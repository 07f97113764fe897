-- Runs before every script that only the learner calls. ARGV[1] is its fence, ARGV[2] the last seq that it saw.
-- A Redis with a lower fence or a lower seq has lost writes.
local function guard()
  local fence = tonumber(redis.call('HGET', RUN, 'fence') or '0')
  if tonumber(ARGV[1]) < fence then return {'fenced', fence} end
  local seq = tonumber(redis.call('HGET', CURSOR, 'seq') or '0')
  if seq < tonumber(ARGV[2]) or tonumber(ARGV[1]) > fence then return {'went back', seq} end
end
local function done(...) return {'ok', redis.call('HINCRBY', CURSOR, 'seq', 1), ...} end
