"""`millrace audit`: what became of every group that was ever issued."""
