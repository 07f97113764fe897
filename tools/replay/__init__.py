"""`millrace replay`: steps of the journal trained again, offline, their weights compared bit for bit."""
