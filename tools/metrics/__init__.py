"""`millrace metrics`: serve a run's numbers to Prometheus."""
