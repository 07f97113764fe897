-- What the audit compares with the ledger, in one look. Reads only.
return {redis.call('HGETALL', CURSOR), redis.call('ZRANGE', SLOTS, 0, -1)}
