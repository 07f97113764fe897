"""Publish new versions: `publisher.py` announces them, and a transport moves the weights.

`transport.py` is the seam. Each transport is one file: a shared folder, or Redis. `build.py` builds the configured one.
Learner and generators use `broker.weight_exchange` for the keys in Redis.
"""
