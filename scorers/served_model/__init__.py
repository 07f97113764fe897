"""A served model that scorers ask: one scorer for all protocols, and a client with failover, shared limits and a cache.

Whose turn it is among several servers, and what `Retry-After` says, is in `web.rotation`.
"""
