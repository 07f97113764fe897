"""Child processes that do what may hang, eat memory or crash, and are ended at a deadline."""
