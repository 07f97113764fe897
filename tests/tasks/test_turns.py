"""What a turn of a chat says, in every form that chat templates take."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.turns import asked, text_of


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("2 + 2?", "2 + 2?"),
        ("", ""),
        (None, ""),
        ([{"type": "text", "text": "Look:"}, {"type": "image"}, {"type": "text", "text": "what is it?"}], "Look:\nwhat is it?"),
        ([], ""),
        ([{"type": "text", "text": None}, "loose"], ""),
        (7, ""),
    ],
)  # fmt: skip
def test_a_turn_says_its_text_and_nothing_else(content: Any, text: str) -> None:
    assert text_of({"role": "user", "content": content}) == text


def test_a_call_of_a_tool_without_a_content_says_nothing() -> None:
    assert text_of({"role": "assistant", "tool_calls": [{"function": {"name": "search"}}]}) == ""


def test_what_is_asked_is_the_last_turn() -> None:
    assert (
        asked([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}]) == "2 + 2?"
    )
    assert asked([]) == ""
