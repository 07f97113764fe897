"""Decide whether an answer is right: used by scorers for scores, and by environments for their replies."""
