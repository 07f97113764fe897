"""Programs against their tests: rows, the program in an answer, and runs in the sandbox."""
