"""A run as `millrace up`, `top` and `metrics` see it: one follower, its findings, and what their screens share."""
