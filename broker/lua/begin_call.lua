-- Count an attempt at a call, where sampling begins. ARGV: stream, consumer, entry.
-- returns the attempts so far, this one included, and the prompt; 0 alone where it is another's, or nobody asks it any more.
local stream, consumer, entry = unpack(ARGV)
local pending = redis.pcall('XPENDING', STREAMS[stream], GROUP, entry, entry, 1)
local fields = fields_of(stream, entry)
if #pending ~= 1 or pending[1][2] ~= consumer or not fields then return {0} end
local at = fields.group and fields.k and fields.key and fields.k .. ':' .. fields.key
local turns = at and turns_of(fields.group)
if not at or redis.call('HGET', turns, 'asked:' .. at) ~= stream .. ' ' .. entry then
  remove(stream, entry)
  return {0}
end
redis.call('XCLAIM', STREAMS[stream], GROUP, consumer, 0, entry)
return {pending[1][4], redis.call('HGET', turns, 'prompt:' .. at)}
