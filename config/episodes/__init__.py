"""Sections of episodes with several turns: their agents and environments."""
