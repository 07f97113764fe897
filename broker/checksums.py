"""Checksums of what travels beside Redis: the learner writes them into announcements, generators check them."""

from __future__ import annotations

import hashlib
from pathlib import Path

BLOCK_BYTES = 1 << 22


def file_checksum(file: Path) -> str:
    """sha256 of a file, hex."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
