"""`millrace journal`: show or export the groups of a run, as lines, as text and as rows."""
