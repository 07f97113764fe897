"""`millrace dead`: what could not be processed, and what an operator does about it."""
