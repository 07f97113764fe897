"""reasoning-gym's entries: rows, what an answer has to be, and the library's word on it in the sandbox."""
