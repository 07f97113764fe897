"""Write answers to files in the formats of verl and II-VERL."""
