"""Match each call of an episode's agent to the answer that it continues, or to a new conversation.

In: the messages and tools of a call; then the turn that answered it. Out: the place that a call continues from, and the
messages since. Agents send their history with each call, and few send it unchanged: thoughts are dropped, arguments are
reformatted, whitespace is stripped, parts of a text are joined. So histories are compared by meaning: role, text, the
names of called tools with their arguments as values; an answer's text without its whitespace. Sampled tokens are taken
from the record, never from the history. A history with another meaning is a new one: a rewritten, compacted or forked
conversation.
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

# In place of the tools, for a call without a chat template.
PLAIN: Final[tuple[Message, ...]] = ({"type": "text"},)


T = TypeVar("T")  # data of an answer in addition to its message


@dataclass(frozen=True, slots=True, eq=False)
class BranchPoint(Generic[T]):
    """An answer of the policy that calls may continue from."""

    turn: T
    history: tuple[Message, ...]  # all messages, ending with this answer; the policy's as recorded
    begun: int  # number of messages before the policy's first answer
    depth: int  # number of the policy's answers in the history
    digest: bytes  # of the messages shown to the agent
    is_auxiliary: bool  # whether it is outside the task


@dataclass(frozen=True, slots=True)
class CallPlace(Generic[T]):
    """The place of a call."""

    after: BranchPoint[T] | None  # None: it continues from no known answer
    since: tuple[Message, ...]  # messages after that; all messages for None
    tools: tuple[Message, ...]

    @property
    def history(self) -> tuple[Message, ...]:
        """Return all messages of the call, with the policy's as recorded."""
        return (*(self.after.history if self.after else ()), *self.since)

    @property
    def is_rewritten(self) -> bool:
        """Whether its history has unknown answers."""
        return any(one["role"] == POLICY for one in self.since)


class Conversations(Generic[T]):
    """The conversations of one play of an episode."""

    def __init__(self) -> None:
        self._places: defaultdict[bytes, list[BranchPoint[T]]] = defaultdict(list)  # by digest

    def find(
        self, messages: Sequence[Message], tools: tuple[Message, ...], stops: Sequence[str] = ()
    ) -> CallPlace[T]:
        """Find what a call continues from: the longest history that ends with an answer, as shown to the agent.

        Args:
            messages: of the call.
            tools: of the call.
            stops: sequences at which its answer is cut. Some agents append one to an answer, and their own text after
                it, though it was never said: so a match up to its first stop sequence counts, too.
        """
        found = self._find(messages, messages, tools)
        if found.after is None and found.is_rewritten and stops:
            ended = [cut_at(one, stops)[0] if one["role"] == POLICY else one for one in messages]
            return self._find(ended, messages, tools)
        return found

    def _find(
        self, meant: Sequence[Message], messages: Sequence[Message], tools: tuple[Message, ...]
    ) -> CallPlace[T]:
        digests = list(_digests(_of_tools(tools), meant))
        for last in range(len(messages) - 1, -1, -1):
            if messages[last]["role"] != POLICY:
                continue
            if places := self._places.get(digests[last]):
                after = _meant(places, messages[last])
                return CallPlace(after, _named(after.history, messages[last + 1 :]), tools)
            break  # an unknown answer: everything after it is new
        return CallPlace(None, _named((), messages), tools)

    def add(
        self, found: CallPlace[T], turn: T, said: Message, shown: Message, *, is_auxiliary: bool = False
    ) -> None:
        """Add an answer.

        Args:
            found: the place of its call.
            turn: the answer's data.
            said: its message, as recorded.
            shown: its message as shown to the agent, possibly cut at a stop sequence.
            is_auxiliary: whether it is outside the task.
        """
        after, since = found.after, found.since
        *_, digest = _digests(after.digest if after else _of_tools(found.tools), (*since, shown))
        place = BranchPoint(
            turn,
            (*found.history, said),
            begun=after.begun if after else len(since),
            depth=after.depth + 1 if after else 1,
            digest=digest,
            is_auxiliary=is_auxiliary,
        )
        self._places[digest].append(place)

    @property
    def longest(self) -> BranchPoint[T] | None:
        """Return the end of the task's conversation with the most answers, the latest of equals."""
        places = [place for group in self._places.values() for place in group if not place.is_auxiliary]
        return max(reversed(places), key=lambda place: place.depth, default=None)


def cut_at(said: Message, stops: Sequence[str]) -> tuple[Message, str | None]:
    """Return a message cut at the first stop sequence in its text, and that sequence."""
    text = text_of(said)
    places = [(at, stop) for stop in stops if (at := text.find(stop)) >= 0]
    if not places:
        return said, None
    at, stop = min(places)
    return {name: one for name, one in said.items() if name != "tool_calls"} | {"content": text[:at]}, stop


def _meant(places: Sequence[BranchPoint[T]], answer: Message) -> BranchPoint[T]:
    """Return the intended one of several equal answers: by ids of calls, by the thought, or the last one."""

    def likeness(place: BranchPoint[T]) -> tuple[bool, bool]:
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
    """Return messages in which each tool's answer has the name of its call: some templates show it."""
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
    """Return the canonical form of a message, equal for all ways to write it."""
    text = text_of(message)
    calls = [
        (call["function"]["name"], _values(call["function"]["arguments"]))
        for call in message.get("tool_calls") or ()
    ]
    # Clients return an answer in parts, or stripped. Other messages they send unchanged each time.
    said = (message["role"], "".join(text.split()) if message["role"] == POLICY else text.strip(), calls)
    return json.dumps(said).encode()


def _values(arguments: str) -> str:
    """Return arguments in one canonical text; JavaScript's only numbers are doubles."""
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
