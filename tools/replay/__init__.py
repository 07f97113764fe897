"""`millrace replay`: train steps of the journal again, offline, and compare their weights bit for bit."""
