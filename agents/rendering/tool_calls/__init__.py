"""Tool calls are read here from what the policy said, by the format of its family, without evaluating anything."""
