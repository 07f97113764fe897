"""Each row's own reference is put before its scorer, and stubs before its tests: a row that fails teaches nothing."""
