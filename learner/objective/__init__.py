"""The learner's objective: the advantages of a group, the importance ratio of a token, and the loss on tokens.

A loss is an `Objective` in a file of `losses/`; `build.py` builds the objective that the configuration names.
"""
