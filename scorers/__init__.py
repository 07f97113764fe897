"""Completion in, score out. No torch; every scorer tells wrong (0) from broken (unscorable)."""
