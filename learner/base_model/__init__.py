"""Read the base model's files, and check that they agree."""
