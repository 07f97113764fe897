"""Check the journal's payloads: the groups of every step must still be on disk as written.

In: the step records of a ledger. Out: how many payloads are intact, how many retention has removed, and a line for each
that is damaged or missing. Reads each file once, in order, in pieces; decodes nothing.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from config.learner.training import CheckpointConfig
from config.yaml_text import EARLIER, read_yaml_text
from learner.journal.ledger import Ledger
from learner.journal.records import step_number
from learner.training.checkpoint import version_of, what_is_wrong

CHUNK_BYTES = 1 << 20
LOOKS = 5  # reads of checkpoints that a running learner replaces


@dataclass(frozen=True, slots=True, kw_only=True)
class Payloads:
    """The state of the steps' payloads."""

    whole: int  # payloads whose checksums match
    removed: int  # payloads that retention removed: a checkpoint covers those steps
    damaged: tuple[str, ...]  # a line for each that is damaged, or missing though recovery needs it


def check_payloads(
    folder: Path, records: Iterable[Mapping[str, Any]], *, covered: Callable[[], int]
) -> Payloads:
    """Compare every payload with the length and checksum in its record.

    Args:
        folder: the journal.
        records: of steps and of collected groups, with `file`, `offset`, `length` and `crc32`.
        covered: returns the step up to which a checkpoint covers the steps: only their payloads may have been removed.
            Called once a file is missing, since a running learner removes files behind its newest checkpoints.
    """
    by_file: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        by_file[record["file"]].append(record)
    whole = removed = 0
    damaged: list[str] = []
    for name, held in sorted(by_file.items()):
        try:
            with (folder / name).open("rb") as stream:
                bad = [
                    record
                    for record in sorted(held, key=lambda record: int(record["offset"]))
                    if not _is_whole(stream, record)
                ]
        except FileNotFoundError:
            oldest = covered()
            needed = [record for record in held if "step" not in record or step_number(record) > oldest]
            removed += len(held) - len(needed)
            damaged += [
                f"{_named(record)}: {name} is gone{', and no checkpoint covers that step' * ('step' in record)}"
                for record in needed
            ]
        except OSError as error:
            damaged += [f"{_named(record)}: {name} can't be read: {error.strerror}" for record in held]
        else:
            whole += len(held) - len(bad)
            damaged += [f"{_named(record)}: its payload in {name} is damaged" for record in bad]
    return Payloads(whole=whole, removed=removed, damaged=tuple(damaged))


def _named(record: Mapping[str, Any]) -> str:
    """Name a payload by its step, or by the first of its collected groups."""
    return f"step {step_number(record)}" if "step" in record else f"groups from {record['ids'][0]} on"


def covered_by_checkpoints(folder: Path, ledger: Ledger) -> int:
    """Return the step up to which recovery needs no payload: that of the oldest kept checkpoint.

    0 where there are fewer than the run keeps: then the run's beginning must replace a broken checkpoint, and every
    payload is needed from there. Of incarnations that kept different numbers the smallest counts, since any of them may
    have removed the missing files.
    """
    keep = min(
        {_keep_of(config) for config in {incarnation.get("config") for incarnation in ledger.incarnations}},
        default=CheckpointConfig().keep,
    )
    for _ in range(LOOKS):
        there = _checkpoints(folder)
        whole = [version_of(path) for path in there if what_is_wrong(path, sizes_only=True) is None]
        if len(whole) >= keep:
            return min(whole)
        if _checkpoints(folder) == there:  # else a checkpoint was replaced meanwhile
            break
    return 0


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if path.name.removeprefix("step-").isdigit())


def _keep_of(config: str | None) -> int:
    """Read `learner.checkpoint.keep` of an incarnation from its configuration in YAML."""
    section = read_yaml_text(config or "", EARLIER) or {}
    return int(section.get("learner", {}).get("checkpoint", {}).get("keep", CheckpointConfig().keep))


def _is_whole(stream: BinaryIO, record: Mapping[str, Any]) -> bool:
    stream.seek(record["offset"])
    left, checksum = int(record["length"]), 0
    while left:
        chunk = stream.read(min(left, CHUNK_BYTES))
        if not chunk:
            return False
        checksum = zlib.crc32(chunk, checksum)
        left -= len(chunk)
    return checksum == int(record["crc32"])
