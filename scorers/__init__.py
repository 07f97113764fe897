"""Completion in, score out. No torch."""
