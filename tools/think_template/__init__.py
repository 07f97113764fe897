"""`millrace think-template`: a copy of a model whose chat template has it think before it answers."""
