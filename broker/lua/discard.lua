-- Discard requests of the reward server in any stream: answered, given up or too old. ARGV: ids.
-- Harmless when repeated. A worker that has one of them finds nothing to exchange at its hand-over.
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
