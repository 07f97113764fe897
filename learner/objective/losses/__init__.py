"""The losses that the learner comes with, one file each; `learner.objective.build` chooses among them."""
