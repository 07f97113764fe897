"""Start the learner's processes: checks before the start, the ranks, and the reason why a rank failed."""
