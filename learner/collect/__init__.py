"""Sample and score a data set without training: a process in the learner's place, and its results."""
