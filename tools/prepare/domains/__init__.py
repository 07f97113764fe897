"""The preparations that come with this program, a module a domain."""
