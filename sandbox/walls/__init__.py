"""The walls around a program: bubblewrap, Landlock, and the filter of system calls."""
