"""Logic puzzles: zebra, ordering, graph, and the grids of ARC-AGI."""
