"""Each row's own reference is put before its scorer: a row whose reference does not score 1 can teach nothing."""
