"""What a row is, from its users' format to the task that scores it. Imports `config` and `broker`."""
