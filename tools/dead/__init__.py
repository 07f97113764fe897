"""`millrace dead`: show what could not be processed, and act on it."""
