"""How new weights reach a generator: it follows the announcements, and reads a folder or Redis."""
