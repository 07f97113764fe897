"""This module chooses the payload files to remove: the settings do not keep them, and recovery does not need them.

In: the ledger, the files that are there, the steps that the checkpoints cover. Out: the files to remove. Called by
`learner.journal` after each checkpoint. Records of groups and steps stay for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from config.learner.journal import JournalConfig
from learner.journal.ledger import Ledger
from learner.journal.payloads import MIB, PayloadFile

DAY_S = 86_400.0


def removable(
    there: list[PayloadFile],
    ledger: Ledger,
    config: JournalConfig,
    *,
    covered: int,
    now: float,
    writing: Path | None,
) -> list[PayloadFile]:
    """Choose the payload files to remove, the oldest first.

    Args:
        there: all payload files, the oldest first.
        covered: steps below this step are covered by the oldest checkpoint that is kept.
        now: Unix seconds.
        writing: the payload file that is being written, which stays.
    """
    last_steps = _last_steps(ledger)
    newer_bytes = 0
    chosen: list[PayloadFile] = []
    for payload_file in reversed(there):
        facts = payload_file.path.stat()
        newer_bytes += facts.st_size
        if payload_file.path == writing or last_steps.get(payload_file.path.name, -1) >= covered:
            continue
        limits = [] if config.keep_days is None else [now - facts.st_mtime > config.keep_days * DAY_S]
        limits += [] if config.keep_mb is None else [newer_bytes > config.keep_mb * MIB]
        # `since_checkpoint` removes what no limit holds, `all` what any limit asks for.
        if all(limits) if config.keep == "since_checkpoint" else any(limits):
            chosen.append(payload_file)
    return chosen[::-1]


def _last_steps(ledger: Ledger) -> Mapping[str, int]:
    """Return the newest step of each payload file, by the file's name."""
    return {record["file"]: record["step"] for record in ledger.steps}
