-- End and begin calls of one endpoint of a served model (scorers/served_model/concurrency_limits.py).
-- KEYS are its own, not those of keys.lua: the calls under way, a sorted set (call -> end of its lease, ms); the time
-- at which the next call is due, us; the processes that want more calls, a sorted set (process -> expiry of that
-- request, ms); that of them which has waited longest.
-- ARGV: most calls at once, us from one call to the next (0: no limit), a lease in ms, the process, how many it has
-- under way, how many have ended, those, and then those that want to begin, in order. Returns the us until another
-- may begin (0: when one ends) and those that may.
--
-- While several processes want more, each gets an equal share, and the one that has waited longest gets two. With equal
-- shares all would begin and end their jobs together, and the endpoint would be idle in between; so one is in the
-- middle of its job while another is between two. A call may begin half an interval before it is due, so that a late
-- one does not delay all that follow: in no minute do more begin than the limit plus one, nor do more arrive, as long as
-- no call takes half an interval longer than another. A call that is already listed was begun before, and its reply was
-- lost. The script opens with a write that needs no room, which is never refused.
local clock = redis.call('TIME')
local now, interval = clock[1] * 1000000 + clock[2], tonumber(ARGV[2])
local most, who, held, first = tonumber(ARGV[1]), ARGV[4], tonumber(ARGV[5]), 7 + ARGV[6]
for _, key in ipairs({KEYS[1], KEYS[3]}) do redis.call('ZREMRANGEBYSCORE', key, '-inf', now / 1000) end
for i = 7, first - 1 do redis.call('ZREM', KEYS[1], ARGV[i]) end
redis.call('ZREM', KEYS[3], who)
local longest = redis.call('GET', KEYS[4])
local others = redis.call('ZCARD', KEYS[3])
local share = others == 0 and most or math.ceil((longest == who and 2 or 1) * most / (others + 2))
local free = math.min(most - redis.call('ZCARD', KEYS[1]), share - held)
local due = math.min(tonumber(redis.call('GET', KEYS[2]) or '0'), now + 2 * interval)   -- the clock may have gone back
local reply, wants_more = {0}, false
for i = first, #ARGV do
  if not redis.call('ZSCORE', KEYS[1], ARGV[i]) then
    if free <= 0 then
      wants_more = true
      break
    end
    if due - now > interval / 2 then
      reply[1] = math.ceil(due - now - interval / 2)
      break
    end
    free, due = free - 1, math.max(due, now) + interval
    redis.call('ZADD', KEYS[1], now / 1000 + ARGV[3], ARGV[i])
  end
  reply[#reply + 1] = ARGV[i]
end
if wants_more then
  redis.call('ZADD', KEYS[3], now / 1000 + 500, who)
  redis.call('PEXPIRE', KEYS[3], 500)
  if not longest or longest == who then redis.call('SET', KEYS[4], who, 'PX', 500) end
elseif longest == who then
  redis.call('DEL', KEYS[4])
end
if #reply > 1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  if interval > 0 then redis.call('SET', KEYS[2], string.format('%.0f', due), 'PX', 60000 + ARGV[3]) end
end
return reply
