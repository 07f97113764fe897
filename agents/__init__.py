"""The role that plays episodes: it asks turns of the policy, and tools or an environment answer."""
