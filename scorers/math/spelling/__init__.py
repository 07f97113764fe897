"""Spellings of mathematics: what only sets a formula is taken away, and what a program would say becomes LaTeX."""
