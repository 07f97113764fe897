"""Processes report here what they do, and operators see it: heartbeats, counters, snapshots, crash reports."""
