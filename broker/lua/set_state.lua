-- Set what the learner must do, or why it must stop (broker/protocol/run_state.py), or what it will run
-- (broker/joining.py). ARGV: the field `wanted`, `why` or `coming`, its value. Full memory does not refuse it.
redis.call('ZREM', SLOTS, '')
redis.call('HSET', RUN, ARGV[1], ARGV[2])
return 1
