"""Readers of answers, pure functions on text that all scorers share: extraction, contentless answers, LaTeX, totals."""
