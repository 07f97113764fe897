"""Programs against their tests: rows, the program of an answer, and runs in the sandbox."""
