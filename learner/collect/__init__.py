"""Here a data set is sampled and scored without training: a process in the learner's place, and what it leaves."""
