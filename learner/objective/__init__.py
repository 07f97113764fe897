"""What the learner optimizes: advantages of a group, and the loss on its tokens."""
