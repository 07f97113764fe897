-- Count an attempt at a call, where sampling begins. ARGV: stream, consumer, entry.
-- returns the attempts so far, this one included, and the prompt; 0 alone where another has it, or nobody waits for it.
local stream, consumer, entry = unpack(ARGV)
local pending = redis.pcall('XPENDING', STREAMS[stream], GROUP, entry, entry, 1)
if #pending ~= 1 or pending[1][2] ~= consumer then return {0} end
local turns, at = asked_at(stream, entry)
if not turns then
  remove(stream, entry)
  return {0}
end
redis.call('XCLAIM', STREAMS[stream], GROUP, consumer, 0, entry)
return {pending[1][4], redis.call('HGET', turns, 'prompt:' .. at)}
