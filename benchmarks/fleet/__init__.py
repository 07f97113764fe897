"""The proof of docs/fleet.md: a run over two machines that share nothing but a Redis behind TLS."""
