"""The engine on transformers: the model, batched sampling, and new weights between two batches."""
