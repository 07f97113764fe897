"""The built-in losses, one file each; `learner.objective.build` chooses among them."""
