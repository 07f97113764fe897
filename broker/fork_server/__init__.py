"""Start roles by forking a process that has imported their libraries, instead of importing them in each."""
