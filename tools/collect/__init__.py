"""Sample a data set on this machine, for the verbs that evaluate a model on it."""
