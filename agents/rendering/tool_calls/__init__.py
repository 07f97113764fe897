"""Parse tool calls in the policy's text, by the format of its model family, without evaluating anything."""
