"""The way of a group through the learner: issued, read back, filtered, selected for a step; held-out rounds too."""
