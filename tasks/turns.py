"""Reads the turns of a chat as text: whoever shows, searches or counts one asks here what it says.

In: a turn as chat templates take it: its content is text, or parts of which some are text, or nothing where it only
calls a tool. Out: text. Pure; needs nothing but the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def text_of(turn: Mapping[str, Any]) -> str:
    """Return the text of a turn; "" where it has none."""
    content = turn.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    return "\n".join(
        part["text"] for part in parts if isinstance(part, Mapping) and isinstance(part.get("text"), str)
    )


def asked(turns: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of the last turn, which the completion answers; "" where there is no turn."""
    return text_of(turns[-1]) if turns else ""
