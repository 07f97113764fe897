"""Bytes and names that are on the disk when a function here returns: for what must outlive a power cut."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import BinaryIO


def write_all(stream: BinaryIO, data: bytes | memoryview) -> None:
    """Write to an unbuffered file, which may take a part at a time, as when the disk is nearly full."""
    rest = memoryview(data)
    while rest:
        rest = rest[stream.write(rest) :]


def sync(path: Path) -> None:
    """Return when a file's bytes, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Return when a folder is there, and its name and those above it are on the disk.

    Those above it may be as new: the run's own was made a moment ago, by whoever locked it or began its logs. Above
    another file system, or what this user may not list, nothing of a run is made.
    """
    if path.is_dir():
        return
    path.mkdir(parents=True, exist_ok=True)
    device = path.stat().st_dev
    for parent in path.resolve().parents:
        if parent.stat().st_dev != device or not os.access(parent, os.R_OK):
            return
        sync(parent)


def replace_text(path: Path, text: str) -> None:
    """Return when a small file has its new text on the disk; a reader sees the old one or the new one, whole."""
    aside = path.with_name(
        f".{path.name}.{secrets.token_hex(4)}"
    )  # a learner elsewhere may have the same pid
    aside.write_text(text, encoding="utf-8")
    sync(aside)
    aside.replace(path)
    sync(path.parent)
