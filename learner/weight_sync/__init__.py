"""How the learner publishes a new version: a folder that generators see, or chunks in Redis."""
