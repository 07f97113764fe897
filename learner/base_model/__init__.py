"""The model that a run begins with: its files, and what they say of each other."""
