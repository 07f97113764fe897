"""Text that a terminal obeys nowhere: what a model wrote is shown to operators, and the terminal is theirs."""

from __future__ import annotations


def printable(text: str) -> str:
    """Returns the text with its control characters spelled out, but for line ends and tabs."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode()
        for char in text
    )
