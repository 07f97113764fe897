"""Offer the policy through APIs that agents use: each episode has a key, and each call is a turn with exact tokens."""
