"""The verb `data`: check a configuration's data before a run."""
