"""The pool of scorers: the dispatcher, RQ workers and their jobs, and what keeps them running."""
