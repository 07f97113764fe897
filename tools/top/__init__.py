"""`millrace top`: show a live screen of a run, with its bottleneck."""
