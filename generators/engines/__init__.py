"""The engines sample: there is one folder or file for each implementation of `generators.engine.Engine`."""
