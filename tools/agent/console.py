"""Show the start of a run of one row: which roles are ready, and what the play waits for.

In: the output lines of the roles, and the run as its follower sees it. Out: plain lines on standard error. Decides
nothing.
"""

from __future__ import annotations

import sys
import time
from typing import Final

from broker.monitoring.health import PATIENT
from tools.agent.progress import Progress
from tools.collect.launch import RowsConsole
from tools.run_view.follower import RunView

NAMES: Final = {"learner": "collector", "generator": "generator", "agent": "agent", "scorer": "scorer"}
STARTING: Final = tuple(
    state for state in PATIENT if state != "wait"
)  # prefixes of states before a role is ready
SAY_EVERY_S: Final = 10.0  # while waiting


class PlayConsole(RowsConsole):
    """Show the roles' own output, as for a run of rows, and which of them are ready."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(sys.stderr)
        self._progress = progress
        self._ready: set[str] = set()

    def tick(self, view: RunView, running: int) -> None:  # noqa: ARG002 - required by the seam
        """Report roles that have become ready, and periodically what the play waits for."""
        if self._ready == NAMES.keys():
            return
        processes = view.snapshot.processes if view.snapshot is not None else ()
        states = {process.role: process.state for process in processes}
        ready = {role for role in NAMES if not states.get(role, STARTING[0]).startswith(STARTING)}
        for role in NAMES:
            if role in ready - self._ready:
                self._progress(f"the {NAMES[role]} is ready")
        self._ready |= ready
        if self._ready == NAMES.keys():
            self._progress("all are ready, and the row is played")
        elif time.monotonic() - self._progress.said_at > SAY_EVERY_S:
            missing = (
                f"the {name} ({states.get(role, 'not there yet')})"
                for role, name in NAMES.items()
                if role not in self._ready
            )
            self._progress(f"waiting for {', '.join(missing)}")
