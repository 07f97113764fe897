"""Play environments of the package verifiers: tasksets of its version 1, and those of `load_environment`."""
