"""Give weights to generators that can't read the learner's folder, through Redis or a folder.

`bundles.py` defines what travels: full weights and deltas, cut into chunks, and the bundles from the weights that a
generator holds to the newest. `exchange.py` is the seam between learner and generators; `redis_exchange.py` keeps the
chunks in Redis, `folder_exchange.py` in a folder. The two ends are the learner's relay (`learner.weight_sync.relay`)
and the generators' receiver (`generators.weight_sync.relayed`).
"""
