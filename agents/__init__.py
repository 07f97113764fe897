"""Play episodes: request turns of the policy, and let tools or an environment answer."""
