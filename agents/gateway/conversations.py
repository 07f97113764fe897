"""The conversations of one episode's agent: each call goes on from an answer that was given before, or begins anew.

In: the messages and tools of a call; then the turn that answered it. Out: the place that a call goes on from, with what
was said since. Agents send their history with each call, and few send it as they got it: thoughts are dropped,
arguments written otherwise, white space stripped, parts of a text joined. So a history is compared by what it says:
role, text, the names of called tools with their arguments as values; an answer's text without its white space. What the
policy sampled is taken from the record, never from the history. A history that says something else is one of its own: a
rewritten, compacted or forked conversation.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, Generic, TypeVar

from broker.messages import Turn as Message
from tasks.turns import POLICY, text_of

# In the tools' place, of a call without a chat template.
PLAIN: Final[tuple[Message, ...]] = ({"type": "text"},)


T = TypeVar("T")  # what is known of an answer beside what it says


@dataclass(frozen=True, slots=True, eq=False)
class Place(Generic[T]):
    """An answer of the policy, which calls may go on from."""

    turn: T
    history: tuple[Message, ...]  # all messages, this answer the last; the policy's as they were recorded
    begun: int  # messages of the history before the policy's first answer
    depth: int  # answers of the policy in the history
    digest: bytes  # of what the agent was shown
    is_auxiliary: bool  # whether it is beside the task


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """Where a call stands."""

    after: Place[T] | None  # None: no answer is known that it goes on from
    since: tuple[Message, ...]  # what was said behind that; all messages where there is none
    tools: tuple[Message, ...]

    @property
    def history(self) -> tuple[Message, ...]:
        """Return all messages of the call, those of the policy as they were recorded."""
        return (*(self.after.history if self.after else ()), *self.since)

    @property
    def is_rewritten(self) -> bool:
        """Whether its history has answers that were never given."""
        return any(one["role"] == POLICY for one in self.since)


class Conversations(Generic[T]):
    """Those of one play of an episode."""

    def __init__(self) -> None:
        self._places: defaultdict[bytes, list[Place[T]]] = defaultdict(list)  # by digest

    def find(
        self, messages: Sequence[Message], tools: tuple[Message, ...], stops: Sequence[str] = ()
    ) -> Found[T]:
        """Find what a call goes on from: the longest history that ends with an answer, as the agent was shown it.

        Args:
            messages: of the call.
            tools: of the call.
            stops: sequences at which its answer is cut. Some agents put one back behind an answer, and words of their
                own behind that, though nothing there was ever said: an answer is looked for up to its first one, too.
        """
        found = self._find(messages, messages, tools)
        if found.after is None and found.is_rewritten and stops:
            ended = [cut_at(one, stops)[0] if one["role"] == POLICY else one for one in messages]
            return self._find(ended, messages, tools)
        return found

    def _find(
        self, meant: Sequence[Message], messages: Sequence[Message], tools: tuple[Message, ...]
    ) -> Found[T]:
        digests = list(_digests(_of_tools(tools), meant))
        for last in range(len(messages) - 1, -1, -1):
            if messages[last]["role"] != POLICY:
                continue
            if places := self._places.get(digests[last]):
                after = _meant(places, messages[last])
                return Found(after, _named(after.history, messages[last + 1 :]), tools)
            break  # an answer that was never given: all that follows from it is new
        return Found(None, _named((), messages), tools)

    def add(
        self, found: Found[T], turn: T, said: Message, shown: Message, *, is_auxiliary: bool = False
    ) -> None:
        """Keep an answer.

        Args:
            found: where its call stood.
            turn: what is known of the answer.
            said: its message, as recorded.
            shown: its message as the agent was given it: a stop sequence may have ended it.
            is_auxiliary: whether it is beside the task.
        """
        after, since = found.after, found.since
        *_, digest = _digests(after.digest if after else _of_tools(found.tools), (*since, shown))
        place = Place(
            turn,
            (*found.history, said),
            begun=after.begun if after else len(since),
            depth=after.depth + 1 if after else 1,
            digest=digest,
            is_auxiliary=is_auxiliary,
        )
        self._places[digest].append(place)

    @property
    def longest(self) -> Place[T] | None:
        """Return the end of the task's conversation with most answers, the latest of several."""
        places = [place for group in self._places.values() for place in group if not place.is_auxiliary]
        return max(reversed(places), key=lambda place: place.depth, default=None)


def cut_at(said: Message, stops: Sequence[str]) -> tuple[Message, str | None]:
    """Return a message up to the first stop sequence in its text, and that sequence."""
    text = text_of(said)
    places = [(at, stop) for stop in stops if (at := text.find(stop)) >= 0]
    if not places:
        return said, None
    at, stop = min(places)
    return {name: one for name, one in said.items() if name != "tool_calls"} | {"content": text[:at]}, stop


def _meant(places: Sequence[Place[T]], answer: Message) -> Place[T]:
    """Return which of several answers that say the same is meant: by ids of calls, by the thought, or the last one."""

    def likeness(place: Place[T]) -> tuple[bool, bool]:
        said = place.history[-1]
        is_same = said.get("reasoning_content") == answer.get("reasoning_content")
        return _call_ids(said) == _call_ids(answer), is_same

    return max(reversed(places), key=likeness)


def _call_ids(message: Message) -> list[Any]:
    return [call.get("id") for call in message.get("tool_calls") or ()]


def _digests(before: bytes, messages: Sequence[Message]) -> list[bytes]:
    """Return the digest of the history up to each message."""
    return list(accumulate(messages, _behind, initial=before))[1:]


def _behind(before: bytes, message: Message) -> bytes:
    return hashlib.blake2b(before + _meaning(message), digest_size=16).digest()


def _of_tools(tools: tuple[Message, ...]) -> bytes:
    return hashlib.blake2b(json.dumps(tools, sort_keys=True).encode(), digest_size=16).digest()


def _named(before: Sequence[Message], since: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages in which each tool that answers has the name that it was called by: some templates show it."""
    if all(one["role"] != "tool" or "name" in one for one in since):
        return tuple(since)
    calls = [call for one in (*before, *since) for call in one.get("tool_calls") or ()]
    names = {call["id"]: call["function"]["name"] for call in calls}
    return tuple(
        one | {"name": names[one["tool_call_id"]]}
        if one["role"] == "tool" and "name" not in one and one["tool_call_id"] in names
        else one
        for one in since
    )


def _meaning(message: Message) -> bytes:
    """Return what a message says, the same for all ways to write it."""
    text = text_of(message)
    calls = [
        (call["function"]["name"], _values(call["function"]["arguments"]))
        for call in message.get("tool_calls") or ()
    ]
    # Clients hand an answer back in parts, or stripped. What others said they send each time as they have it.
    said = (message["role"], "".join(text.split()) if message["role"] == POLICY else text.strip(), calls)
    return json.dumps(said).encode()


def _values(arguments: str) -> str:
    """Return arguments as one text for all ways to write them; JavaScript knows no other numbers than doubles."""
    try:
        found = json.loads(arguments, parse_int=_number, parse_float=_number, parse_constant=str)
        return json.dumps(found, sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def _number(text: str) -> float | int | str:
    number = float(text)
    if not math.isfinite(number):
        return text
    return int(number) if number.is_integer() else number
