-- Delete groups with a durable outcome. ARGV: fence, seq, then ids. Harmless when repeated.
local refused = guard()
if refused then return refused end
for i = 3, #ARGV do
  local id = ARGV[i]
  redis.call('ZREM', SLOTS, id)
  discard_tries(id)
  forget(id)
  local stream, entry = place_of(id)
  if stream then
    if stream ~= 'dead' then                        -- operators remove dead letters
      redis.call('XDEL', STREAMS[stream], entry)
      acknowledge(stream, entry)
      redis.call('HDEL', JOBS, entry)
    end
    redis.call('HDEL', WHERE, id)
  end
end
return done()
