"""From scores to a reward: content, shape and penalties."""
