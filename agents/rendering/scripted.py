"""Render for the scripted engine: a token is a byte, NUL ends a turn, and calls are Hermes'. For tests.

In and out: see `agents.rendering.rendering.Rendering`. It can't fail.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import numpy as np

from agents.rendering.rendering import Spoken
from agents.rendering.spoken import seed_of, spoken
from agents.rendering.tool_calls.formats import HERMES
from broker.messages import FinishReason, Ids, Turn
from tasks.thoughts import THINK
from tasks.turns import text_of

_END: Final = "\0"
_TURN: Final = "assistant\n"


class ScriptedRendering:
    """A `Rendering` whose token ids are UTF-8 bytes."""

    def objection(self, tools: Sequence[Turn]) -> str:
        """Object to nothing."""
        del tools
        return ""

    def first(self, messages: Sequence[Turn], tools: Sequence[Turn]) -> Ids:
        """Return the bytes of all messages."""
        listed = f"tools\n{json.dumps(list(tools), ensure_ascii=False)}{_END}" if tools else ""
        return _ids(listed + "".join(map(_rendered, messages)) + _TURN)

    def following(
        self,
        given: Ids,
        sampled: Ids,
        finish: FinishReason,
        *,
        history: Sequence[Turn],
        said: Sequence[Turn],
        tools: Sequence[Turn],
    ) -> Ids:
        """Return the next prompt; a cut turn is ended."""
        del history, tools
        end = "" if finish is FinishReason.STOP else _END
        return np.concatenate([given, sampled, _ids(end + "".join(map(_rendered, said)) + _TURN)])

    def plain(self, text: str) -> Ids:
        """Return the bytes of a text."""
        return _ids(text)

    def message(
        self, given: Ids, sampled: Ids, finish: FinishReason, *, tools: Sequence[Turn] = ()
    ) -> Spoken:
        """Return the message of these bytes."""
        return spoken(self.text(given, sampled, finish), (THINK,), HERMES, tools, seed_of(given, sampled))

    def text(self, given: Ids, sampled: Ids, finish: FinishReason) -> str:
        """Return the text of these bytes, without the NUL that ended the turn."""
        del given
        said = sampled[:-1] if finish is FinishReason.STOP else sampled
        return bytes(said.tolist()).decode(errors="replace")


def _ids(text: str) -> Ids:
    return np.frombuffer(text.encode("utf-8", "replace"), np.uint8).astype(np.int32)


def _rendered(message: Turn) -> str:
    thought = f"<think>{message['reasoning_content']}</think>" if "reasoning_content" in message else ""
    calls = "".join(
        f'<tool_call>{{"name": {json.dumps(call["function"]["name"])}, '
        f'"arguments": {call["function"]["arguments"]}}}</tool_call>'
        for call in message.get("tool_calls") or ()
    )
    return f"{message['role']}\n{thought}{text_of(message)}{calls}{_END}"
