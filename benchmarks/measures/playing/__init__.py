"""What episodes cost: beside answers of one turn, beside failing environments, and in the cache of prefixes."""
