"""Our side in the children: the standard library alone, of Python 3.8 or newer, with nothing of Millrace imported."""
