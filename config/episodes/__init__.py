"""These sections say how episodes of several turns are played, and by what their environments are made."""
