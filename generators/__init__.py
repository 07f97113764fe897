"""Prompt in, group out. Stateless: everything a generator knows, it reads from Redis."""
