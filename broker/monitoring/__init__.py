"""What processes say of themselves and what an operator sees: heartbeats, counters, snapshots, crash reports."""
