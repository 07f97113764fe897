"""Convert messages to tokens, and sampled tokens to messages; sampled tokens are never tokenized again."""
