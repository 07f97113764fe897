"""Run environments and tools, which answer the policy between its turns, in child processes that a deadline can end."""
