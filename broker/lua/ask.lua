-- What an operator wants of the learner. ARGV: drain, pause or nothing (broker/control.py).
redis.call('ZREM', SLOTS, '')
redis.call('HSET', RUN, 'wanted', ARGV[1])
return 1
