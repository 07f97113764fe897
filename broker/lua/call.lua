-- Request a turn of the policy, or look up its state. ARGV: id, attempt, k, key, floor, near, and the prompt if sent.
-- returns 'turn' and the record, 'failed' and the reason, 'asked': it waits for an answer, 'ask': send the prompt,
-- 'ended': the episode has ended, 'gone': the attempt is not the newest.
local id, attempt, k, key, floor, near, prompt = unpack(ARGV)
local turns, at = turns_of(id), k .. ':' .. key
if redis.call('HGET', turns, 'attempt') ~= attempt then return {'gone'} end
if redis.call('HEXISTS', turns, 'end:' .. k) == 1 then return {'ended'} end
local record = redis.call('HGET', turns, 'turn:' .. at)
if record then return {'turn', record} end
local failed = redis.call('HGET', turns, 'failed:' .. at)
if failed then
  local of, reason = string.match(failed, '^(%S+) (.*)$')
  if of == attempt then return {'failed', reason} end
end
local asked = redis.call('HGET', turns, 'asked:' .. at)
if asked and exists(split(asked)) then return {'asked'} end
prompt = prompt or redis.call('HGET', turns, 'prompt:' .. at)
if not prompt then return {'ask'} end
redis.call('XDEL', STREAMS.policy_calls, '0-1')             -- deletes nothing: so full memory does not refuse the script
local stream = 'policy_calls'
if near ~= '' and redis.call('EXISTS', STREAMS[stream .. ':' .. near]) == 1 then stream = stream .. ':' .. near end
local entry = redis.call('XADD', STREAMS[stream], '*', 'group', id, 'k', k, 'key', key, 'floor', floor)
redis.call('HSET', turns, 'asked:' .. at, stream .. ' ' .. entry, 'prompt:' .. at, prompt)
redis.call('HDEL', turns, 'failed:' .. at)
return {'asked'}
