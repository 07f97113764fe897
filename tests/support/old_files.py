"""Files that an older version of this program left, laid out for a test (tests/compatibility/make_files.py)."""

from __future__ import annotations

import base64
import json
import tarfile
from pathlib import Path
from typing import Any

from broker.keys import Keys
from tests.support.paths import ROOT

NAME = "old"  # the run's


def unpack(folder: Path, commit: str) -> Path:
    """Unpack what a commit left into `folder`, and return the run's own folder in it."""
    known: Any = (
        {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    )  # Debian's Python 3.11.2 has none
    with tarfile.open(ROOT / "tests" / "compatibility" / f"at_{commit}.tar.xz") as archive:
        archive.extractall(folder, **known)
    return folder / "runs" / NAME


def restore(client: Any, folder: Path) -> None:
    """Put the run's keys back into an empty Redis, entries under their own ids."""
    keys = Keys(NAME)
    for suffix, content in json.loads((folder / "redis.json").read_text(encoding="utf-8")).items():
        key = keys(suffix)
        match content:
            case {"entries": entries}:
                for entry_id, fields in entries:
                    client.xadd(key, _pairs(fields), id=_raw(entry_id))
            case {"members": members}:
                client.zadd(key, {_raw(member): score for member, score in members})
            case {"fields": fields}:
                client.hset(key, mapping=_pairs(fields))
            case _:
                raise AssertionError(suffix)


def _pairs(fields: list[list[str]]) -> dict[Any, Any]:
    return {_raw(name): _raw(value) for name, value in fields}


def _raw(text: str) -> bytes:
    return base64.b64decode(text)
