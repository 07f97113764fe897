"""Play one row and show everything, for people who write an agent, an environment or a tool."""
