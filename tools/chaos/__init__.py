"""`millrace chaos`: disturb a run continually, and audit it."""
