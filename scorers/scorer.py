"""The seam between a group and its scorers is one Protocol, with one folder for each implementation.

In: the text of a completion and its row's `verification_info`; of an episode its last message, or all of it, if the
scorer is `Conversing`. Out: a `Score`. `scorers.group` calls a scorer for one completion at a time, from one thread;
`scorers.build` builds the scorer from the config. Failures are told apart
here, once. What the answer itself brought about is a score of 0; what the machinery did raises `Retryable`; a reference
that nobody could match is unscorable.
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from msgspec import Struct

from broker.errors import Permanent
from broker.scores import End, EnvironmentReward, Score, ScoreStatus, Turn

# A component of every zero that the answer's own limits (time, memory, output) brought about: the pool counts these.
OVER_LIMIT: Final = "over_limit"
# A component of an unscorable score that is due to what this machine lacks: a compiler, a package.
LACKING: Final = "lacking"


class SelfTestFailed(Permanent):
    """This is raised where a scorer does not tell right from wrong on this machine: it must not take a job."""


class TakesLong(Exception):
    """This is raised where an answer takes longer than the scorer's patience, which says nothing of the answer."""


_Known = tuple[weakref.ref[Any], dict[type, bool]]
_KNOWN: dict[int, _Known] = {}  # by a scorer's identity, the protocols that it satisfies


class _Remembered(type(Protocol)):  # type: ignore[misc]
    """A protocol that remembers which scorers satisfy it: each group asks ten times, and Python 3.11 searches."""

    def __instancecheck__(cls, instance: Any) -> bool:
        own = id(instance)
        found = _KNOWN.get(own)
        if found is None or found[0]() is not instance:
            try:
                reference = weakref.ref(instance, lambda _: _KNOWN.pop(own, None))
            except TypeError:  # it has no weak reference
                return bool(super().__instancecheck__(instance))
            found = _KNOWN[own] = reference, {}
        known = found[1]
        if cls not in known:
            known[cls] = super().__instancecheck__(instance)
        return known[cls]


class Named(Protocol):
    """A scorer's name and version, which each of its scores carries."""

    @property
    def name(self) -> str:
        """The scorer's name in a `Score`."""
        ...

    @property
    def version(self) -> str:
        """The version of the scorer's rules and libraries."""
        ...


def make_score(
    scorer: Named,
    value: float | None,
    reason: str,
    *,
    started: float | None = None,
    seconds: float = 0.0,
    components: Mapping[str, float] | None = None,
    version: str | None = None,
) -> Score:
    """Build the score of one completion.

    Args:
        scorer: gives the score its name and version.
        value: in [0, 1]; None: unscorable.
        reason: for people.
        started: when the work began, by `time.monotonic`; without it, `seconds` counts.
        seconds: how long the work took.
        components: parts of the value by name.
        version: given where it is not the scorer's own.
    """
    return Score(
        status=ScoreStatus.UNSCORABLE if value is None else ScoreStatus.SCORED,
        value=value,
        reason=reason,
        scorer=scorer.name,
        version=scorer.version if version is None else version,
        seconds=seconds if started is None else time.monotonic() - started,
        components=components or {},
    )


class Scorer(Protocol):
    """A scorer judges the content of one completion."""

    @property
    def name(self) -> str:
        """The scorer's name in a `Score`."""
        ...

    @property
    def version(self) -> str:
        """The version of the scorer's rules and libraries: the same text and version give the same value."""
        ...

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Refuse a row that the scorer could never score. Raises `BadMessage` naming what the row lacks.

        Called when the data are read, by a process of its own (`scorers.gold.row_check`), and again where the row is
        scored: once for a group, before its first completion, or for a line of a file. It looks at the row alone: it
        starts no sandbox and asks no service.
        """
        ...

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """Judge one completion by its text, the response alone without its prompt.

        Raises:
            Retryable: the machinery failed, not the answer; the caller tries again. No failure becomes a number here.
            BadMessage: as `check_row`.
        """
        ...

    def self_test(self) -> None:
        """Score a right, a wrong and a hanging answer. Raises `SelfTestFailed` naming an unexpected score."""
        ...

    def close(self) -> None:
        """End every child process. The scorer can be used again afterwards."""
        ...


class Conversation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What can be scored of an episode: all but its tokens."""

    text: str  # of the policy's last message: what other scorers are asked of
    messages: tuple[Turn, ...]  # what was said behind the prompt, tools' answers too
    ended_by: End
    remark: str = ""  # on its end, for people
    reward: EnvironmentReward | None = None  # of an environment that has given one

    def __hash__(self) -> int:
        return hash(self.text)


Asked = str | Conversation  # what a scorer is asked of; equal ones are scored once


@runtime_checkable
class Conversing(Protocol, metaclass=_Remembered):
    """A scorer may read the whole of an episode, not only the policy's last message."""

    def score_conversation(self, conversation: Conversation, verification_info: Mapping[str, Any]) -> Score:
        """Judge one episode, in place of `score`, and raise as it does. An episode that failed never comes here."""
        ...


@runtime_checkable
class Prefetching(Protocol, metaclass=_Remembered):
    """A scorer that waits for a service learns early what it will be asked, so that many calls overlap.

    It is told of texts alone; `PrefetchingConversations` of what `score_conversation` will be asked.
    """

    def prefetch(self, text: str, verification_info: Mapping[str, Any]) -> None:
        """Start what `score` of the same text and row will wait for, unless it has started. Returns at once.

        `score` may never be called for the text. A failure here is raised by `score`.
        """
        ...


@runtime_checkable
class PrefetchingConversations(Protocol, metaclass=_Remembered):
    """A scorer that reads conversations and waits for a service learns early of those, too."""

    def prefetch_conversation(self, conversation: Conversation, verification_info: Mapping[str, Any]) -> None:
        """Start what `score_conversation` of the same will wait for, as `prefetch` does for a text."""
        ...


@runtime_checkable
class Trying(Protocol):
    """A scorer whose rows hold tests finds out which rows an answer without any work in it passes."""

    def passing_stub(self, verification_info: Mapping[str, Any]) -> str:
        """Say which such answer passes a row: "a function that returns []". "": none does.

        Asked by the gold test, before a row is used, and never where answers are scored.

        Raises:
            Retryable: the machinery failed.
            BadMessage: as `check_row`.
        """
        ...


@runtime_checkable
class Patient(Protocol, metaclass=_Remembered):
    """A scorer whose answers may take long can be asked to break off early, where other groups wait."""

    patience_s: float | None
    """Seconds of one case after which `score` raises `TakesLong`; None: it has all the time of its limits."""


@dataclass(slots=True, kw_only=True)
class OwnTime:
    """The time that answers take by themselves, in a child or in the sandbox; what the machinery loses is not in it."""

    deadline_s: float  # that one answer has by its scorer's section
    share_s: float = math.inf  # that one answer has of its group's time
    ran_s: float = 0.0  # that answers have taken since somebody set this to 0

    @property
    def most_s(self) -> float:
        """Return the seconds that one answer has."""
        return min(self.deadline_s, self.share_s)

    @contextmanager
    def measured(self) -> Iterator[float]:
        """Yield the seconds that an answer has, and count those in which it ran."""
        started = time.monotonic()
        try:
            yield self.most_s
        finally:
            self.ran_s += time.monotonic() - started

    @contextmanager
    def lent_to(self, other: OwnTime) -> Iterator[None]:
        """Have another scorer, which runs an answer for this one, keep to its share, and count what it took."""
        other.share_s, other.ran_s = self.share_s, 0.0
        try:
            yield
        finally:
            other.share_s = math.inf
            self.ran_s += other.ran_s


@runtime_checkable
class Timed(Protocol, metaclass=_Remembered):
    """A scorer whose answers run, each up to a deadline, gives them less where the time of their group asks for it."""

    own_time: OwnTime


@runtime_checkable
class Counting(Protocol, metaclass=_Remembered):
    """A scorer may count what nobody else sees."""

    def take_counts(self) -> Mapping[str, int]:
        """Give the counts since the last call, by their names in `broker.monitoring.counters.ScorerStats`."""
        ...
