"""What each engine takes of a configuration."""
