"""Agents that work in a place, which is judged when they have ended: Harbor's task directories, rows about patches."""
