"""Weights lie here for generators that do not see the learner's folder: what is there, who asks, and where that is.

`parcels.py` says what travels: full weights and deltas, cut into chunks, and the way from the weights that a
generator holds to the newest. `exchange.py` is the seam between learner and generators; `redis_exchange.py` keeps the
chunks in Redis, `folder_exchange.py` in a folder. The learner's relay (`learner.weight_sync.relay`) and the generators'
receiver (`generators.weight_sync.relayed`) are the two ends.
"""
