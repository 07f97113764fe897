"""Groups in, weights out."""
