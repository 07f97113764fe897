"""The reward server, `python -m scorers serve`, gives scores over HTTP, from the same pool that scores for training."""
