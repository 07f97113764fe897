"""Advantages of a group, importance ratios of tokens, and losses on tokens.

Each loss is an `Objective` in a file of `losses/`; `build.py` builds the configured one.
"""
