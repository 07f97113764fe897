"""`millrace up`: run the roles of a run as processes of this machine, and show them to the user."""
