"""Messages between the roles, and how they change hands. Needs redis, msgpack and numpy; no model library."""
