"""Where prompts come from: data sets, and problems made on the spot."""
