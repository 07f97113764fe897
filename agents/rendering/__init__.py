"""Messages become tokens here, and what the policy sampled becomes a message; nothing sampled is tokenized again."""
