"""Names that are not ours today: the ones that keys had before, and other systems' keys and variables."""
