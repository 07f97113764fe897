"""The commands of README and docs/, typed as they stand in a fresh clone."""
