"""A run goes on by this: what earlier incarnations left, what its configuration may change, recovery and replay."""
