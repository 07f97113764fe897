"""Read data sets and made problems, and give the prompts of a run."""
