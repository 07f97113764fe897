"""Observe a run for `millrace up`, `top` and `metrics`: one follower, its findings, and parts of their screens."""
