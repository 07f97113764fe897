"""Names of keys that are not ours today: the ones that a key had before, and those of other systems, their variables too."""
