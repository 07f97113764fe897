"""What the process that scores rows and its callers say to each other: frames on a socket, and results.

In: lines and results. Out: bytes, and back. Used by `scorers.child.row_worker` and by `scorers.api`, whose callers
load nothing heavier for it.
"""

from __future__ import annotations

import socket
from typing import Any, Final

from sandbox.harness.pipe import framed, read_frame

TEXT_KEY: Final = "llm_output"
EPISODE_KEY: Final = "millrace_episode"  # beside it, of an episode: all that scorers may read
OWN: Final = b""  # in place of the scorers' section: those of `scorers.api.all_tasks`
# Its first frame: the scorers are there, or the environment names an impossible service.
READY, REFUSED = b"{}", b"!"
# Before a line: give its result; begin what the result will wait for; say which stub passes its row.
SCORE, PREFETCH, TRY = b"=", b"+", b"?"
STUB_KEY: Final = "stub"  # of a trial's result: what passes the row, "" where nothing does
ROWS_FAULTS: Final = frozenset({"row", "type"})  # `fault` of an error that the row itself is to blame for

Result = dict[str, Any]


def failure(reason: str, task: str | None = None, *, status: str = "error", fault: str) -> Result:
    """Return the result of a line without a score."""
    return {
        "status": status,
        "value": None,
        "reason": reason,
        "components": {},
        "seconds": 0.0,
        "scorer": None,
        "version": None,
        "task": task,
        "fault": fault,
    }


def send_frame(link: socket.socket, data: bytes) -> None:
    """Write one frame. OSError where the other side is gone."""
    link.sendall(framed(data))


def receive_frame(link: socket.socket) -> bytes | None:
    """Read one frame; None where the other side has closed."""
    try:
        return read_frame(link.recv)
    except EOFError:
        return None
