"""`millrace score`: responses scored without a run."""
