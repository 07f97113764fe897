"""Millrace's code in child processes: only the standard library of Python 3.8 or newer, no other Millrace imports."""
