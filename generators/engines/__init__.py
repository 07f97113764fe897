"""Implementations of `generators.engine.Engine`, one folder or file each."""
