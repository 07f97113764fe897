"""What a run is: frozen, closed, documented sections. Imports nothing heavy, so that a typo is answered at once."""
