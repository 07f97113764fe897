"""Long proofs, one `make prove-...` each: chaos, exact resume, the protocol, lag, learning."""
