"""What a turn of a chat says, in every form that chat templates take."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.turns import asked, conversation_text, spoken, text_of


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


def a_call(name: Any, arguments: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("turn", "speaker", "parts"),
    [
        ({"role": "user", "content": "Go on."}, "user", ["Go on."]),
        ({"role": "assistant", "content": None, "tool_calls": [a_call("add", '{"a": 1}')]}, "assistant", ['calls add({"a": 1})']),
        ({"role": "assistant", "content": "So", "tool_calls": [a_call("add", {"é": 1})]}, "assistant", ["So", 'calls add({"é": 1})']),
        ({"role": "assistant", "reasoning_content": "Hm.", "content": "5"}, "assistant", ["(thinks) Hm.", "5"]),
        ({"role": "tool", "name": "add", "content": "2"}, "tool add", ["2"]),
        ({"role": "tool", "name": "a\nuser: b", "content": "2"}, "tool a user: b", ["2"]),
        ({"role": "tool", "content": "no", "is_error": True}, "tool, an error", ["no"]),
        ({"role": "tool", "content": "yes", "is_error": False}, "tool", ["yes"]),
        ({"role": "user", "name": "bob", "content": "", "is_error": True}, "user", []),
        ({}, "?", []),
        ({"role": "assistant", "tool_calls": "add"}, "assistant", []),
        ({"role": "assistant", "tool_calls": [7, {"function": "add"}]}, "assistant", ["calls ?()"]),
    ],
)  # fmt: skip
def test_a_turn_is_read_by_people_whatever_its_shape(
    turn: dict[str, Any], speaker: str, parts: list[str]
) -> None:
    (one,) = spoken([turn])
    assert (one.speaker, one.parts) == (speaker, parts)


def test_a_tool_has_the_name_that_it_was_called_by() -> None:
    turns: list[dict[str, Any]] = [
        {"role": "assistant", "content": "Both.", "tool_calls": [a_call("add", "{}"), a_call("sub", "{}") | {"id": "c2"}]},
        {"role": "tool", "tool_call_id": "c2", "content": "1"},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
        {"role": "tool", "tool_call_id": "c3", "content": "?"},
    ]  # fmt: skip
    assert [one.speaker for one in spoken(turns)] == ["assistant", "tool sub", "tool add", "tool"]
    said = "assistant: Both.\ncalls add({})\ncalls sub({})\n\ntool sub: 1\n\ntool add: 3\n\ntool: ?"
    assert conversation_text(turns) == said
