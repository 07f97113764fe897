"""Programs against the tests of their row, in the sandbox."""
