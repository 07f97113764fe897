"""The seam between the learner's relay and the generators' receivers: a place for a manifest, chunks and wishes.

In: what one end writes. Out: what the other end reads. The relay writes manifest and chunks, a generator its own wish.
Nothing of the protocol reads what lies here: losing any of it delays a generator, and does no other harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from broker.errors import Retryable
from broker.weight_exchange.parcels import Manifest, Wish

Chunk = tuple[str, int]  # a parcel's name, and the number of the chunk


class ExchangeAway(Retryable):
    """The place does not answer, or takes nothing; the message says which and why."""


class ExchangeCutOff(ExchangeAway):
    """The place does not answer at all."""


class ExchangeFull(ExchangeAway):
    """The place has no room left."""


class Exchange(Protocol):
    """A place that learner and generators reach. Every method may raise `ExchangeAway`."""

    place: str  # its name, for people
    others_wait: bool  # whether it does nothing else while it takes a chunk

    def read_manifest(self) -> Manifest | None:
        """Read the manifest; None where there is none that can be read."""
        ...

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the manifest in the place of the one before."""
        ...

    def clear(self) -> None:
        """Remove the manifest, and every chunk that it names."""
        ...

    def put(self, chunk: Chunk, value: bytes) -> None:
        """Put a sealed chunk there."""
        ...

    def has_settled(self) -> bool:
        """Return whether the place's disk has what was put there: before, it should be given no more."""
        ...

    def get(self, chunk: Chunk) -> bytes | None:
        """Read a sealed chunk; None where it is not there."""
        ...

    def drop(self, chunks: Iterable[Chunk]) -> None:
        """Remove chunks; some may be gone."""
        ...

    def present(self, chunks: Iterable[Chunk]) -> set[Chunk]:
        """Return which of these chunks are there."""
        ...

    def prolong(self, chunks: Iterable[Chunk]) -> None:
        """Let these chunks and the manifest stay on, where what lies in the place expires."""
        ...

    def ask(self, generator: str, wish: Wish) -> None:
        """Write a generator's wish in the place of the one before."""
        ...

    def wishes(self) -> Mapping[str, Wish]:
        """Read the wishes, by generator."""
        ...
