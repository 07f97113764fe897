-- What the learner is to do, or why it is to stop (broker/protocol/run_state.py). ARGV: wanted or why, what is said.
redis.call('ZREM', SLOTS, '')
redis.call('HSET', RUN, ARGV[1], ARGV[2])
return 1
