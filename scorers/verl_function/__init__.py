"""Reward files of verl's: their function is called in a child process."""
