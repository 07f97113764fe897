"""`millrace report`."""
