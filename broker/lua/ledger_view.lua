-- Read what the audit compares with the ledger, at one moment: cursor, slots, where, retries. Reads only.
return {redis.call('HGETALL', CURSOR), redis.call('ZRANGE', SLOTS, 0, -1), redis.call('HGETALL', WHERE),
        redis.call('HGETALL', RETRIES)}
