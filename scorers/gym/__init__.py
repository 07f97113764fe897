"""reasoning-gym's tasks, scored by the library inside the sandbox."""
