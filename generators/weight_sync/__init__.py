"""Bring new weights to a generator: `follower.py` reads the announcements, and a receiver fetches the weights.

`receiver.py` is the seam. Each receiver is one file: `filesystem.py` for a shared folder, `relayed.py` for Redis.
`build.py` builds the receiver for the learner's transport. Learner and generators use `broker.weight_exchange` for the
keys in Redis.
"""
