"""The tables of the import: every key of verl's that is known, and what becomes of it, a file a section."""
