"""A served model that scorers ask: one client with failover, limits that all workers share, and a cache."""
