"""The seam of the weights' way into a generator: a receiver turns an announcement into files on this machine.

In: the newest announcements. Out: files whose checksum is the announced one. The follower calls a receiver in a thread
beside the event loop. A receiver is the other end of one of the learner's transports; `build.py` chooses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from broker.errors import Permanent, Retryable
from broker.messages import Announcement


class NotHere(Retryable):
    """The weights are not on this machine yet; the message names what the generator waits for.

    Args:
        is_arriving: a part of them has arrived since the last call.
    """

    def __init__(self, message: str, *, is_arriving: bool = False) -> None:
        super().__init__(message)
        self.is_arriving = is_arriving


class TooLarge(Permanent):
    """The configuration forbids to move weights of this size this way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """Weights that an engine can load."""

    version: int
    files: tuple[Path, ...]  # safetensors with Hugging Face names; their checksum has been compared


class WeightReceiver(Protocol):
    """A way of the weights into a generator. Blocking calls, one at a time."""

    @property
    def is_slow(self) -> bool:
        """Return whether each version takes a while to arrive, so that a first `NotHere` is nothing to warn of."""
        ...

    def receive(self, announced: Sequence[Announcement], *, held: int) -> Received:
        """Return the newest announced weights, or a version newer than `held` that is given out in its place.

        Args:
            announced: the last announcements, the newest first; at least one.
            held: the version in the engine.
        Raises:
            NotHere: the weights have not arrived; ask again.
            TooLarge: the run's configuration does not let them through.
            OSError, BadMessage: a file is not there (any more), or they have another checksum.
            RunFailed: this machine can't take them.
        """
        ...

    def loaded(self, received: Received) -> None:
        """Take note that the engine holds these weights and needs the files no more."""
        ...

    def close(self) -> None:
        """Break off what is under way, and leave nothing behind. Called from another thread than the others."""
        ...
