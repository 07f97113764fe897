"""`millrace export`: write a version of a run's weights as a Hugging Face folder."""
