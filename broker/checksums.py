"""This module makes the checksums of files: announcements and the journal name them, and whoever reads compares.

Weights have XXH3 (128 bits) over their files one behind another, which hashes them at the speed of memory: sha256 took
longer than many a disk. Both find damage, and neither finds a forger, who can write files and checksum. Checkpoints,
and weights that a journal named before, have sha256. A checksum's length says which it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import xxhash

BLOCK_BYTES = 1 << 22
SHA256_HEX = 64  # characters


class Digest(Protocol):
    """What the two hashes have in common."""

    def update(self, data: memoryview | bytes, /) -> None:
        """Take in more bytes."""
        ...

    def hexdigest(self) -> str:
        """Return the checksum of what was taken in, hex."""
        ...


def weights_digest() -> Digest:
    """Return a new digest of the kind that weights have."""
    digest: Digest = xxhash.xxh3_128()
    return digest


def weights_checksum(files: Sequence[Path], *, like: str = "") -> str:
    """Return the checksum of weights, hex.

    Args:
        files: of one version, in order.
        like: a checksum that it will be compared with: of the older kind, it gets one of its own kind.
    """
    return _hashed(files, hashlib.sha256() if len(like) == SHA256_HEX else weights_digest())


def file_checksum(file: Path) -> str:
    """Return the sha256 of a file, hex."""
    return _hashed([file], hashlib.sha256())


def _hashed(files: Sequence[Path], digest: Digest) -> str:
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(BLOCK_BYTES):
                digest.update(block)
    return digest.hexdigest()
