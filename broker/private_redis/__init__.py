"""The redis-server that a run starts for itself: where it is, and how its append-only file is mended."""
