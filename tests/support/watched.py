"""A supervisor whose lines and deaths are kept, over small shell scripts in place of the roles."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from broker.restarts import RestartPolicy
from tests.support.waiting import is_running
from tools.up.role_commands import Command
from tools.up.supervisor import RunEnd, Supervisor

QUICK = RestartPolicy(most=2, window_s=60.0, first_pause_s=0.02)
WORKER = "echo up; trap 'echo asked; exit 0' TERM; sleep 300 & wait"


def command(role: str, script: str) -> Command:
    return Command(role=role, args=("bash", "-c", script), ends_the_run=role == "learner")


class Watched:
    """A supervisor whose lines are kept."""

    def __init__(
        self,
        folder: Path,
        *commands: Command,
        on_tick: Callable[[], None] = lambda: None,
        restarts: RestartPolicy = QUICK,
        start_s: float = 60.0,
    ) -> None:
        self.lines: list[tuple[str, str]] = []
        self.deaths: list[tuple[str, int, str]] = []
        self.stop = threading.Event()
        self.supervisor = Supervisor(
            commands,
            environment={"REDIS_URL": "redis://here"},
            logs=folder / "logs",
            on_line=self._line,
            on_tick=on_tick,
            restarts=restarts,
            start_s=start_s,
            grace_s=2.0,
            tick_s=0.02,
            on_death=lambda *death: self.deaths.append(death),
        )

    def _line(self, role: str, text: str) -> None:
        self.lines.append((role, text))

    def run(self) -> RunEnd:
        return self.supervisor.run(self.stop)


def living(pids: list[int]) -> list[int]:
    """Those of `pids` whose process still does something: a zombie does not."""
    return [pid for pid in pids if is_running(pid)]
