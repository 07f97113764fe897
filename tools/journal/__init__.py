"""`millrace journal`: what a run trained on, as lines, as text and as rows."""
