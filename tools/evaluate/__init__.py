"""`millrace evaluate`: a model's answers to held-out sets, sampled and scored without training, and what they say."""
