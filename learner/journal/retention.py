"""Choose the payload files to remove: those that neither the settings nor recovery need.

In: the ledger, the existing files, the steps that the checkpoints cover. Out: the files to remove. Called by
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
        covered: steps below this one are covered by the oldest kept checkpoint.
        now: Unix seconds.
        writing: the current payload file, which stays.
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
        # `since_checkpoint` removes files that every limit allows to go, `all` those that any limit wants gone.
        if all(limits) if config.keep == "since_checkpoint" else any(limits):
            chosen.append(payload_file)
    return chosen[::-1]


def _last_steps(ledger: Ledger) -> Mapping[str, int]:
    """Return the newest step of each payload file, by file name."""
    return {record["file"]: record["step"] for record in ledger.steps}
