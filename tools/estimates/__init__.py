"""What a run needs, by arithmetic on its configuration and its model; shared by `doctor` and `plan`."""
