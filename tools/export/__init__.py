"""`millrace export`: a version of a run's weights as a Hugging Face folder."""
