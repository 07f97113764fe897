"""The demo in containers: scaled, killed, taken down and up."""
