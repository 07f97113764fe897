"""HTTP, for what this program serves and for what it asks. It is not named `http`, which is Python's own."""
