"""The model's output head: how many logits to compute at once, and with which product."""
