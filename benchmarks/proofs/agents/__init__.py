"""`make prove-agents`: every kind of environment, played with the real package."""
