"""`millrace rescore`: what a run trained on, put through another scorer, and what that would have changed."""
