"""Run agents that own their loop, in their child process: a function, or a command with or without walls."""
