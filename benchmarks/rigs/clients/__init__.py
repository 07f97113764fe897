"""Clients, as others have them: agents on pinned libraries, and processes and coroutines that speak HTTP by hand."""
