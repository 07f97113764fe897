"""Engines: a model with its optimizer on all ranks, which the passes of a step run on."""
