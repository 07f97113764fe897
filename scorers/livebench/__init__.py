"""LiveBench's questions of reasoning, data analysis and language, each by its task's own rule."""
