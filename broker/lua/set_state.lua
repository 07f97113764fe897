-- Set what the learner must do, or why it must stop (broker/protocol/run_state.py). ARGV: the field `wanted` or `why`,
-- its value. Full memory does not refuse it: it may be the reason.
redis.call('ZREM', SLOTS, '')
redis.call('HSET', RUN, ARGV[1], ARGV[2])
return 1
