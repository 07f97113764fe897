"""`millrace trace`: the way of one group through a run."""
