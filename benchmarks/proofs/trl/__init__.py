"""`make prove-trl`: the demo beside TRL's GRPOTrainer, from the command to the answer."""
