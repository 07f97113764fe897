"""How a run goes on: what earlier incarnations left, what its configuration may change, recovery and replay."""
