"""reasoning-gym's entries: rows, rules for answers, and the library's verdict in the sandbox."""
