"""Questions answered by search: Search-R1's exact match."""
