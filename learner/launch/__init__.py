"""The learner's processes start here: the checks before the start, the ranks, and why a rank has failed."""
