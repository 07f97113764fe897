"""`millrace doctor`: find what prevents a run on this machine."""
