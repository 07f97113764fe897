"""An interpreter that is kept ready and forked for runs: the process of a supervisor, and one run of it."""
