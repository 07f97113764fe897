"""`metrics.jsonl` as it is read: one object a step.

In: a run's folder. Out: its steps' objects. A held-out round that ends when its step's line is written already, and no
step follows, has a line of its own (`step` and the round's keys, no `reward_mean`): here it is put where it belongs.
Used by `learner.reporting.metrics`, which writes the file, by the picture and by the tools. Needs neither numpy nor
torch.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Every step's object in a run's folder; none where there is no file. Lines that are not whole are passed over."""
    try:
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    records: list[dict[str, Any]] = []
    for line in lines:
        with contextlib.suppress(ValueError):  # torn by a power cut, or just being written
            record = json.loads(line)
            if is_step(record):
                records.append(record)
            elif records:
                add_rounds(records[-1], record["evaluations"])
    return records


def is_step(record: Mapping[str, Any]) -> bool:
    """Whether a line is a step's; the others bring rounds that ended after it."""
    return "reward_mean" in record


def add_rounds(record: dict[str, Any], rounds: Sequence[Mapping[str, Any]]) -> None:
    """Put rounds that have ended into an object: all in a list, and beside it the numbers of the newest.

    Args:
        rounds: at least one; each has `version`, `pass_rate` and `samples`.
    """
    every = [*record.get("evaluations", ()), *rounds]
    newest = max(every, key=lambda result: int(result["version"]))
    record |= {
        "evaluations": every,
        "eval_version": newest["version"],
        "eval_pass_rate": newest["pass_rate"],
        "eval_samples": newest["samples"],
    }
