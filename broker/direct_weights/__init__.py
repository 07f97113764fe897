"""Weights go straight from the learner to generators by what lies here: who asks, who is in, and what is under way.

`records.py` says what both sides write: an epoch with its members and its round, and a generator's wish. `board.py`
keeps them in Redis. `courier_process.py` starts and ends the process that moves the bytes, the program `courier`. The
learner's `learner.weight_sync.direct` and the generators' `generators.weight_sync.direct` are the two ends.
"""
