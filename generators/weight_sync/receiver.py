"""Define the seam of weights into a generator: a receiver turns an announcement into local files.

In: the newest announcements. Out: files with the announced checksum. The follower calls a receiver in a thread beside
the event loop. Each receiver is the counterpart of one of the learner's transports; `build.py` chooses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from broker.errors import Permanent, Retryable
from broker.messages import Announcement


class NotHere(Retryable):
    """The weights are not on this machine yet; the message says what the generator waits for.

    Args:
        is_arriving: some of them arrived since the last call.
    """

    def __init__(self, message: str, *, is_arriving: bool = False) -> None:
        super().__init__(message)
        self.is_arriving = is_arriving


class TooLarge(Permanent):
    """The configuration forbids moving weights of this size in this way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """Weights that an engine can load."""

    version: int
    files: tuple[Path, ...]  # safetensors with Hugging Face names; their checksum has been checked


class WeightReceiver(Protocol):
    """A way of weights into a generator. Blocking calls, one at a time."""

    @property
    def is_slow(self) -> bool:
        """Return whether each version takes a while to arrive, so that a first `NotHere` needs no warning."""
        ...

    def receive(self, announced: Sequence[Announcement], *, held: int) -> Received:
        """Return the newest announced weights, or a version newer than `held` that is offered instead.

        Args:
            announced: the last announcements, the newest first; at least one.
            held: the version in the engine.
        Raises:
            NotHere: the weights have not arrived; call again.
            TooLarge: the run's configuration does not let them through.
            OSError, BadMessage: a file does not exist (any more), or the checksum differs.
            RunFailed: this machine can't take them.
        """
        ...

    def loaded(self, received: Received) -> None:
        """Note that the engine has loaded these weights and no longer needs the files."""
        ...

    def close(self) -> None:
        """Abort work in progress, and remove all files. Called from another thread than the others."""
        ...
