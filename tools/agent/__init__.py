"""One row is played here and shown whole: what people look at while they write an agent, an environment or a tool."""
