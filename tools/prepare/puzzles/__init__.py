"""Generators of logic puzzles, each with a solver that finds exactly one solution of every puzzle that leaves it."""
