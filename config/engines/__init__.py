"""Limits of the engines on the values of a configuration."""
