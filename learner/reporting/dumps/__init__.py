"""Answers in files of the shapes that programs for verl and II-VERL read."""
