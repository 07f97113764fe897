"""Run a script with bash itself, behind the sandbox's walls, and record the arguments of each program."""
