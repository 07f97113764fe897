"""What decides whether an answer is right, below the roles: scorers score by it, environments answer a policy by it."""
