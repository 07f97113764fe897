"""The shape of an answer: what it must look like to be scored, and rows that ask for nothing else."""
