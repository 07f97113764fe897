"""The pool of scorers has the dispatcher, the RQ workers and their jobs, and the supervisor that keeps them running."""
