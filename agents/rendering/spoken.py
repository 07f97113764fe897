"""Parse the text of a turn to a message: its thought, its content, and its tool calls.

In: the sampled text, the marks of the model's thoughts, the format of its calls. Out: `Spoken`. Pure; an unreadable
call stays content, with the reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from agents.rendering.rendering import Spoken
from agents.rendering.tool_calls.formats import CallFormat, ParsedText, said_in
from agents.rendering.tool_calls.reading import ToolCall, text_of
from broker.messages import Ids, Turn
from tasks.thoughts import THINK, Marks, parted

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_ID_CHARACTERS = 9  # Mistral's templates require ids of exactly that many letters and digits


def spoken(
    text: str,
    marks: Sequence[Marks],
    call_format: CallFormat,
    tools: Sequence[Turn],
    seed: bytes,
    *,
    most_calls: int | None = None,
) -> Spoken:
    """Parse a text to a message.

    Args:
        text: a turn without its end, after the mark with which its prompt opened a thought.
        marks: of the model's thoughts.
        call_format: of its tool calls.
        tools: of the turn's prompt.
        seed: of the ids of calls, with their positions.
        most_calls: that the template supports in one turn; None: any number.
    """
    thought, said = _thought_and_said(text, marks, call_format, tools, most_calls)
    message: Turn = {"role": "assistant", "content": said.content}
    if thought is not None and (thought := thought.strip()):
        message["reasoning_content"] = thought
    if said.calls:
        message["tool_calls"] = [_tool_call(found, place, seed) for place, found in enumerate(said.calls)]
    return Spoken(message=message, unread=said.unread)


def seed_of(given: Ids, sampled: Ids) -> bytes:
    """Return a seed unique to this turn, equal for equal tokens."""
    return hashlib.blake2b(given.tobytes() + sampled.tobytes(), digest_size=16).digest()


def _thought_and_said(
    text: str, marks: Sequence[Marks], call_format: CallFormat, tools: Sequence[Turn], most_calls: int | None
) -> tuple[str | None, ParsedText]:
    parts = parted(text, marks)
    if parts.answer is not None:
        is_after_thought = parts.thought is not None
        answer = parts.answer.lstrip("\n") if is_after_thought else parts.answer
        return parts.thought, said_in(answer, call_format, tools, most_calls)
    # A thought without an end, or ended by a call: the call's mark ends the thought, as in other servers.
    first = call_format.begins.search(text)
    if first is not None:
        said = said_in(text[first.start() :], call_format, tools, most_calls)
        if said.calls:
            return _unopened(text[: first.start()], marks), said
    return _unopened(text, marks), ParsedText("")


def _unopened(text: str, marks: Sequence[Marks]) -> str:
    """Return a started thought without its opening mark."""
    for each in (*marks, THINK):
        if opening := each.opening.match(text.lstrip()):
            return text.lstrip()[opening.end() :]
    return text


def _tool_call(found: ToolCall, place: int, seed: bytes) -> Turn:
    return {
        "id": found.id or _id(seed, place),
        "type": "function",
        "function": {"name": found.name, "arguments": text_of(found.arguments)},
    }


def _id(seed: bytes, place: int) -> str:
    number = int.from_bytes(hashlib.blake2b(seed + bytes([place % 256]), digest_size=8).digest(), "big")
    letters = []
    for _ in range(_ID_CHARACTERS):
        number, digit = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[digit])
    return "".join(letters)
