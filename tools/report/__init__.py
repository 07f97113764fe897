"""`millrace report`: write the report of a run."""
