"""Sample groups from prompts. Stateless: everything a generator knows, it reads from Redis."""
