"""A run can start a redis-server for itself: this package starts and finds it, and mends its append-only file."""
