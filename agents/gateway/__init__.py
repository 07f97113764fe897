"""The policy behind the APIs that agents speak: each episode has a key, and each call is a turn with exact tokens."""
