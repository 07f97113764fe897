"""Servers that scorers ask, of models and of sandboxes: whose turn it is, and a busy server's Retry-After."""
