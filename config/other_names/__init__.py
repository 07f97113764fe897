"""Names other than the present ones: earlier names of keys, and other systems' keys and variables."""
