"""Environments of the package verifiers: tasksets of its version 1, and what `load_environment` makes."""
