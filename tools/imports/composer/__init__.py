"""Compose a configuration of verl with Hydra, in a separate Python environment, by JSON over a pipe."""
