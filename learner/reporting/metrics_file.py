"""Log to `metrics.jsonl` and `samples.jsonl`, and read `metrics.jsonl`.

In: the record of each step. Out: one line for each, and the steps' records again. An evaluation round may end after its
step's line is written, with no step to follow. Then it gets its own line (`step` and the round's keys, no
`reward_mean`), and the reader adds the round to its step. Read by the learner at its start, by the curves and by the
tools. Needs neither numpy nor torch.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO


class MetricsFile:
    """A `Logger` that writes the two files in a run's folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._metrics, self._samples = (_open(folder / name) for name in ("metrics.jsonl", "samples.jsonl"))

    def log(self, record: Mapping[str, Any]) -> None:
        """Write one line of metrics."""
        self._metrics.write(json.dumps(record) + "\n")
        self._metrics.flush()

    def sample(self, record: Mapping[str, Any]) -> None:
        """Write one sample answer."""
        self._samples.write(json.dumps(record, ensure_ascii=False) + "\n")
        self._samples.flush()

    def close(self) -> None:
        """Close the files."""
        self._metrics.close()
        self._samples.close()


def _open(file: Path) -> TextIO:
    """Open a file for appending, after ending a last line that a power cut may have torn."""
    is_torn = file.exists() and not file.read_bytes().endswith(b"\n") and file.stat().st_size > 0
    stream = file.open("a", encoding="utf-8")
    if is_torn:
        stream.write("\n")
    return stream


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Read every step's record in a run's folder; none where there is no file. Skips torn lines."""
    try:
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    records: list[dict[str, Any]] = []
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):  # torn by a power cut, or just being written
            record = json.loads(line)
            if is_step(record):
                records.append(record)
            elif records:
                add_rounds(records[-1], record["evaluations"])
    return records


def is_step(record: Mapping[str, Any]) -> bool:
    """Return whether a line is a step's; other lines have rounds that ended after the step."""
    return "reward_mean" in record


def add_rounds(record: dict[str, Any], rounds: Sequence[Mapping[str, Any]]) -> None:
    """Add ended rounds to a step's record: all in a list, and the newest round's numbers next to it.

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
