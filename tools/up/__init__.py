"""`millrace up`: the roles of a run as processes of this machine, and what their user sees."""
