"""`millrace top`: a live screen of a run, with its bottleneck by name."""
