"""The journal on disk: records of every outcome, payloads of every step, what is kept and what is removed."""
