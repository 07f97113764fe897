"""HTTP for this program's servers and clients. It is not named `http`, which is Python's own."""
