"""The learner publishes a new version here: `publisher.py` announces, and a transport moves the weights.

`transport.py` is the seam. Each transport is one file: a folder that generators see, or Redis. `build.py` builds the
transport that the configuration names. Both ends of the way through Redis read and write its keys by
`broker.weight_exchange`.
"""
