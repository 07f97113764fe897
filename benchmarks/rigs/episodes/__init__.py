"""Runs of episodes without a learner: processes of their own, environments, and what they cost."""
