"""Limit what one run of a program may use.

A scorer sets limits from its section: `memory_mb` and others in `config/scorer_kinds.py`. These are the defaults of all
other programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on what one run may use. A run over one of them is ended with everything that it started."""

    wall_s: float = 10.0  # from its start
    memory_bytes: int = 1 << 30  # of all its processes together
    processes: int = 64  # and threads, at a time
    file_bytes: int = 16 << 20  # of one file
    scratch_bytes: int = 64 << 20  # of all that it writes
    output_bytes: int = 4 << 20  # of standard output and of standard error, each

    @property
    def cpu_s(self) -> int:
        """Return the processor seconds of a process with all its threads: a backstop, should nobody watch the clock."""
        return 2 * ceil(self.wall_s) + 1
