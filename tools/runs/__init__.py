"""Manage runs with the verbs `runs`, `rm`, `pause`, `resume`, `drain` and `redis-cli`, and read their folders."""
