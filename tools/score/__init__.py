"""`millrace score`: score responses without a run."""
