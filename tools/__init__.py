"""Programs that compose the packages: the `millrace` command and what it runs."""
