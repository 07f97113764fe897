"""`millrace plan`: compute what a run needs of any hardware, before using any."""
