-- Give up leases at once, unfinished: the next worker that looks takes the entries over, and no attempt is counted.
-- ARGV: stream, consumer, lease in ms, the worker's own name, then for each: entry, 1 if this worker began it else 0.
-- returns how many were given up. The consumer `nobody` has them then, so that the worker's name can be removed.
local stream, consumer = STREAMS[ARGV[1]], ARGV[2]
local given = 0
for i = 5, #ARGV, 2 do
  local entry = ARGV[i]
  local pending = redis.pcall('XPENDING', stream, GROUP, entry, entry, 1)
  if #pending == 1 and pending[1][2] == consumer then
    local begun = tonumber(ARGV[i + 1])
    redis.call('XCLAIM', stream, GROUP, 'nobody', 0, entry, 'IDLE', ARGV[3], 'RETRYCOUNT',
               math.max(1, pending[1][4] - begun), 'JUSTID')
    if ARGV[1] == 'rollouts' then redis.call('HDEL', JOBS, entry) end
    if begun == 1 then discard_attempt(ARGV[1], entry, ARGV[4]) end
    given = given + 1
  end
end
return given
