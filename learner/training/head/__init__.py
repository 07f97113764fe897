"""The model's output head on a device: how many logits there are at once, and how they are multiplied."""
