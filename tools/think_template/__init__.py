"""`millrace think-template`: copy a model with a chat template that makes it think before it answers."""
