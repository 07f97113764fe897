"""`millrace journal` and `millrace replay`: what the journal holds, as text and trained again."""
