"""`millrace trace`: show the history of one group in a run."""
