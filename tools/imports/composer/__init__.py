"""Hydra composes a configuration of verl's, in an environment of its own, asked in JSON over a pipe."""
