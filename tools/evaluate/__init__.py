"""`millrace evaluate`: sample and score a model's answers to held-out sets without training, and summarize them."""
