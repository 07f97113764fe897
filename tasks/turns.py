"""Read the turns of a chat as text, for display, search and counting.

In: turns in the form that chat templates accept: the content is text, or parts of which some are text, or absent if the
turn only calls a tool. Out: text, or a conversation's turns for people to read. Missing or unknown parts of a turn
become "" or "?". Pure functions of the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

POLICY = "assistant"  # its role
NAME_CHARS = 80  # of a speaker: a model may call a tool by any name


def text_of(turn: Mapping[str, Any]) -> str:
    """Return the text of a turn; "" if it has none."""
    content = turn.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    return "\n".join(
        part["text"] for part in parts if isinstance(part, Mapping) and isinstance(part.get("text"), str)
    )


def asked(turns: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of the last turn, which the completion answers; "" if there is no turn."""
    return text_of(turns[-1]) if turns else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """One turn of a conversation, for people."""

    role: str
    tool: str = ""  # name of the tool that answers
    thought: str = ""  # for models whose turns keep thoughts separate
    text: str = ""
    calls: tuple[str, ...] = ()  # of tools, with their arguments: `search({"query": "Rome"})`
    is_error: bool = False  # whether a tool reports an error

    @property
    def speaker(self) -> str:
        """Return the speaker, on one line: `assistant`, `tool search`, `tool search, an error`."""
        named = " ".join(f"{self.role} {self.tool}".split())[:NAME_CHARS]
        return f"{named}, an error" if self.is_error else named

    @property
    def parts(self) -> list[str]:
        """Return the thought, the text and the calls, each if there is any."""
        called = [f"calls {call}" for call in self.calls]
        return [*([f"(thinks) {self.thought}"] if self.thought else []), *filter(None, [self.text]), *called]


def spoken(turns: Sequence[Mapping[str, Any]]) -> list[Spoken]:
    """Return the turns of a conversation for people to read; a tool has the name by which it was called."""
    names: dict[str, str] = {}
    found = []
    for turn in turns:
        calls = [call for call in _list(turn.get("tool_calls")) if isinstance(call, Mapping)]
        names |= {str(call.get("id")): _function(call)[0] for call in calls}
        is_tool = turn.get("role") == "tool"
        tool = turn.get("name") or names.get(str(turn.get("tool_call_id")), "")
        thought = turn.get("reasoning_content")
        found.append(
            Spoken(
                role=str(turn.get("role", "?")),
                tool=str(tool) if is_tool else "",
                thought=thought if isinstance(thought, str) else "",
                text=text_of(turn),
                calls=tuple("{}({})".format(*_function(call)) for call in calls),
                is_error=is_tool and turn.get("is_error") is True,
            )
        )
    return found


def conversation_text(turns: Sequence[Mapping[str, Any]]) -> str:
    """Return a conversation as one text, with an empty line between turns."""
    return "\n\n".join(f"{one.speaker}: " + "\n".join(one.parts) for one in spoken(turns))


def _function(call: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name of the called function, and its arguments as JSON."""
    function = call.get("function")
    function = function if isinstance(function, Mapping) else {}
    given = function.get("arguments", "")
    return str(function.get("name", "?")), given if isinstance(given, str) else json.dumps(
        given, ensure_ascii=False
    )


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()
