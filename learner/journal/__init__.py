"""The journal on disk: records of every outcome, payloads of every step, and their retention."""
