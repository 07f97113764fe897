"""Make text safe for a terminal: a model's text must not control an operator's terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return the text with its control characters escaped, except newlines and tabs."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode()
        for char in text
    )
