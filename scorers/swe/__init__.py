"""Patches: similarity with the reference's patch, or the row's own tests in the sandbox."""
