"""Episodes of several turns: an agent asks turns of the policy, and tools or an environment answer. No role yet."""
