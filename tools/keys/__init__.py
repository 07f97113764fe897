"""`millrace keys`: every key of the configuration and every metric, with what it means."""
