"""This package says what a row is, from its users' form to the task that scores it. It imports `config` alone."""
