"""`millrace doctor`: what on this machine is in the way of a run."""
