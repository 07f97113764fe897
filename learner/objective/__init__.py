"""What the learner optimizes: the advantages of a group, the importance ratio of a token, and the loss on tokens.

A loss is an `Objective` in a file of `losses/`; `build.py` chooses the one that the configuration names.
"""
