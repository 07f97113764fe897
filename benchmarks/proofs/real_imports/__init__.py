"""Real launch scripts through `millrace import`: judged by bash for the words, by Hydra for the values."""
