"""`millrace plan`: what a run needs of any hardware, before any is touched."""
