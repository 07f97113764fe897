"""Estimate a run's needs from its configuration and its model, for `doctor` and `plan`."""
