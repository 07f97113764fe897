"""This module makes the checksums of files that travel beside Redis: announcements name them, generators check them."""

from __future__ import annotations

import hashlib
from pathlib import Path

BLOCK_BYTES = 1 << 22


def file_checksum(file: Path) -> str:
    """Return the sha256 of a file, hex."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
