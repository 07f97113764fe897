"""Mathematical answers: equality with a reference, decided by math-verify in a child process."""
