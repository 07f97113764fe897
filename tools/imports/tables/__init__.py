"""The tables of the import: every known key of verl's with its translation, one file per section."""
