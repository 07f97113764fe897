"""The reward that trains a rubric model: how near a grade comes to the right one."""
