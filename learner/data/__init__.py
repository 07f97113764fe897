"""The prompts of a run come from here: data sets, and problems made on the spot."""
