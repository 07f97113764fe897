"""Checksums of files, which announcements and the journal carry and readers compare.

Weights get XXH3 (128 bits) over the concatenation of their files. It runs at memory speed, where sha256 was slower than
many disks. Both detect damage; neither detects an attacker who can write the files and the checksum. Checkpoints, and
weights of older journals, have sha256. The length of a checksum tells which it is.
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
    """Common interface of the two hashes."""

    def update(self, data: memoryview | bytes, /) -> None:
        """Add bytes."""
        ...

    def hexdigest(self) -> str:
        """Return the checksum of all bytes added, hex."""
        ...


def weights_digest() -> Digest:
    """Return a new digest of the kind used for weights."""
    digest: Digest = xxhash.xxh3_128()
    return digest


def weights_checksum(files: Sequence[Path], *, like: str = "") -> str:
    """Return the checksum of weights, hex.

    Args:
        files: of one version, in order.
        like: the checksum to compare with; a sha256 there makes this return a sha256.
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
