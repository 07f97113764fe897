"""A generator's end of direct weights: `member.py` takes part in epochs, `receiver.py` gives the engine the versions.

The learner's end is `learner.weight_sync.direct`; what both write into Redis is `broker.direct_weights`.
"""
