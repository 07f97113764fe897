-- Discard requests of the reward server, wherever they are: answered, given up or too old. ARGV: ids.
-- Harmless when repeated. A worker that is at one of them finds, at its hand-over, nothing to exchange.
redis.call('ZREM', SLOTS, '')
for _, id in ipairs(ARGV) do
  redis.call('ZREM', SLOTS, id)
  discard_tries(id)
  local stream, entry = place_of(id)
  if stream and STREAMS[stream] then
    redis.call('XDEL', STREAMS[stream], entry)
    acknowledge(stream, entry)
    redis.call('HDEL', JOBS, entry)
  end
  redis.call('HDEL', WHERE, id)
end
return #ARGV
