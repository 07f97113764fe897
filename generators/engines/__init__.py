"""What samples: one folder or file for each implementation of `generators.engine.Engine`."""
