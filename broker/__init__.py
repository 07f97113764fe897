"""The wire: what travels between the roles and how it changes hands. redis, msgpack and numpy; no model library."""
