"""The start of the learner's processes: the checks before it, the ranks, and why a rank has failed."""
