-- What the learner is to do, or why it is to stop (broker/control.py). ARGV: wanted or why, what is said.
redis.call('ZREM', SLOTS, '')
redis.call('HSET', RUN, ARGV[1], ARGV[2])
return 1
