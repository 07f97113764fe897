"""A data set is sampled here on this machine, for the verbs that ask what a model makes of it."""
