"""The transformers engine: the model, batched sampling, and new weights between two batches."""
