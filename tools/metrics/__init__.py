"""`millrace metrics`: a run's numbers for Prometheus."""
