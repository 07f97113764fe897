"""Multiple choice: one letter, stated once."""
