"""Slurm on this machine, and a run under it whose jobs are taken away."""
