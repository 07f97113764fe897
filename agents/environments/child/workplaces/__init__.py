"""Run agents in a place that is judged after their end: Harbor's task directories, rows about patches."""
