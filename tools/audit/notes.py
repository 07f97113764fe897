"""Write and read the notes of a journal, `journal/notes.jsonl`: what operators did to the run by hand.

In: a purge of dead letters. Out: one JSON object per line, on disk before anything is deleted. A note is no outcome:
the audit shows it, and does not count by it.
"""

from __future__ import annotations

import getpass
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from broker.errors import RunFailed
from learner.journal.disk import sync, write_all

NAME = "notes.jsonl"


def write_note(folder: Path, note: str, **facts: Any) -> None:
    """Append a note with its time and author to the journal in `folder`; it is on disk on return.

    Raises:
        RunFailed: it could not be written; the noted action must not be done.
    """
    path = folder / NAME
    line = json.dumps({"at": time.time(), "by": _author(), "note": note, **facts}) + "\n"
    try:
        with path.open("ab", buffering=0) as stream:
            write_all(stream, (line if _ends_whole(path) else "\n" + line).encode())
            os.fsync(stream.fileno())
        sync(folder)
    except OSError as error:
        raise RunFailed(f"{path} can't be written: {error.strerror}. Nothing was done") from error


def read_notes(folder: Path) -> list[Mapping[str, Any]]:
    """Read every complete note, the oldest first; none without notes."""
    try:
        lines = (folder / NAME).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    notes = []
    for line in lines:
        try:
            notes.append(json.loads(line))
        except (ValueError, RecursionError):  # a write without disk space: no action followed it
            continue
    return [note for note in notes if isinstance(note, dict)]


def _author() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())


def _ends_whole(path: Path) -> bool:
    """Return whether the file ends with a newline: a write that failed halfway may have left a partial line."""
    with path.open("rb") as stream:
        if stream.seek(0, os.SEEK_END) == 0:
            return True
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"
