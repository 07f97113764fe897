"""Generate logic puzzles, with a solver that verifies that each has exactly one solution."""
