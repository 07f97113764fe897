"""Take one optimizer step: the packed batch, the model under DeepSpeed, log-probabilities, checkpoints, statistics."""
