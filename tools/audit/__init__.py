"""`millrace audit`: check that every issued group has exactly one outcome."""
