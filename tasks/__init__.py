"""What a row is, for every role: from a row as its users have it to the task that scores it. Imports `config` alone."""
