"""The seam between the learner's relay and the generators' receivers: storage for a manifest, chunks and requests.

In: what one end writes. Out: what the other end reads. The relay writes manifest and chunks, a generator its own
request (`WeightsRequest`). The protocol reads none of it: losing any of it delays a generator, and does no other harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from broker.errors import Retryable
from broker.weight_exchange.bundles import Manifest, WeightsRequest

Chunk = tuple[str, int]  # a bundle's name, and the number of the chunk


class ExchangeAway(Retryable):
    """The storage does not answer, or refuses writes; the message says which and why."""


class ExchangeCutOff(ExchangeAway):
    """The storage does not answer at all."""


class ExchangeFull(ExchangeAway):
    """The storage is full."""


class Exchange(Protocol):
    """Storage that learner and generators reach. Every method may raise `ExchangeAway`."""

    place: str  # for people
    others_wait: bool  # whether the storage is blocked for others while it takes a chunk

    def read_manifest(self) -> Manifest | None:
        """Read the manifest; None where no valid one exists."""
        ...

    def write_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest."""
        ...

    def clear(self) -> None:
        """Remove the manifest, and every chunk that it names."""
        ...

    def put(self, chunk: Chunk, value: bytes) -> None:
        """Store a sealed chunk."""
        ...

    def has_settled(self) -> bool:
        """Return whether the disk has caught up with the last writes; until then, write no more."""
        ...

    def get(self, chunk: Chunk) -> bytes | None:
        """Read a sealed chunk; None where it is missing."""
        ...

    def drop(self, chunks: Iterable[Chunk]) -> None:
        """Remove chunks; some may already be gone."""
        ...

    def present(self, chunks: Iterable[Chunk]) -> set[Chunk]:
        """Return which of these chunks are stored."""
        ...

    def prolong(self, chunks: Iterable[Chunk]) -> None:
        """Extend the expiry of these chunks and the manifest, where the storage expires."""
        ...

    def ask(self, generator: str, request: WeightsRequest) -> None:
        """Replace a generator's request."""
        ...

    def requests(self) -> Mapping[str, WeightsRequest]:
        """Read the requests, by generator."""
        ...
