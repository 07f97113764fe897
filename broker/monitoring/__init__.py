"""What processes report about themselves, for operators: heartbeats, counters, snapshots, crash reports."""
