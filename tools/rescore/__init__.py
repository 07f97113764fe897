"""`millrace rescore`: score a run's trained groups with another scorer, and show what would have changed."""
