"""Start and find a run's own redis-server, and repair its append-only file."""
