"""New weights reach a generator here: `follower.py` reads the announcements, and a receiver brings the weights here.

`receiver.py` is the seam. Each receiver is one file: `filesystem.py` for a shared folder, `relayed.py` for Redis.
`build.py` builds the receiver that belongs to the learner's transport. Both ends of the way through Redis read and
write its keys by `broker.weight_exchange`.
"""
