"""Reading a shell script without running it: its statements, and what its variables would hold."""
