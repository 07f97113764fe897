"""Episodes by the reward of their own environment."""
