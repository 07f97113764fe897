"""Train on groups and publish weights."""
