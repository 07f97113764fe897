"""Programs that combine the packages: the `millrace` command and its verbs."""
