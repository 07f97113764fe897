"""The seam between a group and what judges it: one Protocol, one file per implementation.

In: the text of a completion and its row's `verification_info`. Out: a `Score`. `scorers.group` calls it for one
completion at a time, from one thread; `scorers.registry` builds it from the config. What fails is told apart here,
once: what the answer itself brought about is a score of 0, what the machinery did raises `Retryable`, and a reference
that nobody could match is unscorable.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, Protocol, runtime_checkable

from broker.errors import Permanent
from broker.messages import Score, ScoreStatus

# A component of every zero that the answer's own limits (time, memory, output) brought about: the pool counts these.
OVER_LIMIT: Final = "over_limit"


class SelfTestFailed(Permanent):
    """A scorer does not tell right from wrong on this machine; it must not take a job."""


class Named(Protocol):
    """What a score says of its scorer."""

    @property
    def name(self) -> str:
        """What it is called in a `Score`."""
        ...

    @property
    def version(self) -> str:
        """Of its rules and libraries."""
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
    """Builds the score of one completion.

    Args:
        scorer: gives its name and version.
        value: in [0, 1]; None: unscorable.
        reason: for people.
        started: when the work began, by `time.monotonic`; or
        seconds: how long it took.
        components: parts of the value by name.
        version: where it is not the scorer's own.
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
    """What judges the content of one completion."""

    @property
    def name(self) -> str:
        """What it is called in a `Score`."""
        ...

    @property
    def version(self) -> str:
        """Of its rules and libraries: the same text and version give the same value."""
        ...

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Refuse a row that it could never score. Raises `BadMessage` naming what the row lacks.

        Called where the row is scored: once for a group, before its first completion, or for a line of a file. Not at
        ingest, which knows no scorer: there only a row's type decides, its task.
        """
        ...

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """Judge one completion by its text, the response alone without its prompt.

        Raises:
            Retryable: the machinery failed, not the answer; the caller tries again. Never turned into a number here.
            BadMessage: as `check_row`.
        """
        ...

    def self_test(self) -> None:
        """Score a right, a wrong and a hanging answer. Raises `SelfTestFailed` naming what came out otherwise."""
        ...

    def close(self) -> None:
        """End every child process. It can be used again afterwards."""
        ...


@runtime_checkable
class Prefetching(Protocol):
    """A scorer that waits for a service: it learns early what it will be asked, so that many calls overlap."""

    def prefetch(self, text: str, verification_info: Mapping[str, Any]) -> None:
        """Starts what `score` of the same text and row will wait for, unless it has started. Returns at once.

        `score` may never be called for it. A failure here is raised by `score`.
        """
        ...


@runtime_checkable
class Counting(Protocol):
    """A scorer that counts what only it can see."""

    def take_counts(self) -> Mapping[str, int]:
        """What has been counted since the last call, by names in `broker.monitoring.counters.ScorerStats`."""
        ...
