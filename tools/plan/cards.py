"""Determine the GPUs that a run is planned for: from the user, else from the file's first lines, else unknown.

In: `--gpu-memory` and `--gpu`, and a recipe's first comment. Out: a GPU's memory, and fictitious GPUs for the doctor's
sums. This machine's GPUs are not queried.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from config.generators import VllmEngineConfig
from config.gpus import Card
from config.run import Run
from tools.up.role_commands import gpus_of_generator, judge_gpus

GIB = 1 << 30
SEEN = 0.99  # of a GPU's nominal GiB: one sold as 80 GB shows 79.2 (A100) or 79.6 (H100)
NAMED = re.compile(r"\bGPUs?\s+of\s+(\d+(?:\.\d+)?)\s*GB\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The assumed kind of each GPU of the run."""

    bytes: int | None = None  # of its memory; None: unknown
    source: str = ""  # of this information
    name: str = ""  # from `--gpu`, for the peak performance

    def of(self, run: Run) -> tuple[Card, ...]:
        """Return as many GPUs as the run names; none where their memory is unknown."""
        if self.bytes is None:
            return ()
        numbers = {*run.learner.gpus, *run.generators.gpus, *range(run.learner.ranks), *judge_gpus(run)}
        engine = run.generators.engine
        if isinstance(engine, VllmEngineConfig):
            for index in range(run.generators.count):
                numbers |= {*(gpus_of_generator(run, index) or range(engine.tensor_parallel))}
        return tuple(
            Card(name=str(index), free_bytes=self.bytes, total_bytes=self.bytes)
            for index in range(max(numbers) + 1)
        )


def planned(file: Path, *, memory_gb: float | None, name: str) -> Planned:
    """Return the user's GPUs, else those of the file's first lines, `… GPUs of 80 GB …`."""
    if memory_gb is not None:
        return Planned(bytes=int(memory_gb * SEEN * GIB), source=f"--gpu-memory {memory_gb:g}", name=name)
    head = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        head.append(line.lstrip("# "))
    if found := NAMED.search(" ".join(head)):
        return Planned(
            bytes=int(float(found[1]) * SEEN * GIB),
            source=f"the first lines of {file}: {found[0]}",
            name=name,
        )
    return Planned(name=name)
