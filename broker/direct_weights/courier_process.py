"""A courier is the process that moves weights for the learner or for a generator, and this module is its parent's end.

In: what the courier is to connect to, then a command for each round. Out: its events, as they come. Commands and events
are lines of JSON, on its standard input and output; the program is `courier`. A collective that hangs hangs in there,
with its CUDA context and its sockets, and `kill` ends all of it. The courier of a parent that dies dies with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from broker.processes import how_it_ended

COMMAND = (sys.executable, "-m", "courier")
REAP_S = 1.0  # for a killed courier to be gone; one inside the GPU's driver may take longer
EXITED = "exited"  # the last event: the process has ended

Event = Mapping[str, Any]  # "event" is its name


class CourierProcess:
    """One courier, for one epoch. Its methods wait for nothing but `next_event`, which has a deadline.

    Args:
        settings: what the program is told first, see `courier.__main__`.
        command: the program; a test's may do something else.
    Raises:
        OSError: no process can be started.
    """

    def __init__(self, settings: Mapping[str, Any], *, command: Sequence[str] = COMMAND) -> None:
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [*command, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # the terminal's Ctrl-C is the parent's business
        )
        threading.Thread(target=self._listen, name="courier-events", daemon=True).start()
        self.tell(settings)

    @property
    def pid(self) -> int:
        """Return the process's id."""
        return self._process.pid

    def tell(self, command: Mapping[str, Any]) -> None:
        """Send a command. One that has ended says so by its last event."""
        if self._process.stdin is None:
            raise ValueError("the courier has no standard input")
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()

    def next_event(self, timeout_s: float) -> Event | None:
        """Wait for the next event; None where there is none in time."""
        with contextlib.suppress(queue.Empty):
            return self._events.get(timeout=timeout_s) if timeout_s > 0 else self._events.get_nowait()
        return None

    def kill(self) -> None:
        """End it at once, whatever it is in."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=REAP_S)
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def _listen(self) -> None:
        if self._process.stdout is None:
            raise ValueError("the courier has no standard output")
        with self._process.stdout as stream:
            for line in stream:
                with contextlib.suppress(ValueError):
                    self._events.put(json.loads(line))
        self._events.put({"event": EXITED, "reason": f"the courier {how_it_ended(self._process.wait())}"})
