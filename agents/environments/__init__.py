"""Environments and tools: what answers the policy between its turns, in child processes that a deadline can end."""
