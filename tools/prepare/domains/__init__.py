"""The built-in preparations, one module per domain."""
