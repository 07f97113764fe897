"""Programs foretold: CodeI/O and CRUXEval, decided by running the row's program in the sandbox."""
