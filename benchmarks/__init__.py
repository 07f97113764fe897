"""Measures and proofs: what each part costs beside a peer or its limit, and what holds. No other package imports it."""
