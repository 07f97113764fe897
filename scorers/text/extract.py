"""Where the answer of a completion is: the path by which scorers, a user's own too, import `verdicts.extract`."""

from __future__ import annotations

from verdicts.extract import (
    END_MARKS,
    MAX_RESPONSE_CHARS,
    Block,
    Unanswered,
    answering_part,
    closed_part,
    fenced_blocks,
    last_answer,
    last_block,
    last_box,
    response_part,
    thought_part,
    visible,
    within,
)

__all__ = [
    "END_MARKS",
    "MAX_RESPONSE_CHARS",
    "Block",
    "Unanswered",
    "answering_part",
    "closed_part",
    "fenced_blocks",
    "last_answer",
    "last_block",
    "last_box",
    "response_part",
    "thought_part",
    "visible",
    "within",
]
