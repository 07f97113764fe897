"""What the scorer and its supervisor say to each other over their socket pair: one order, one report, in turn.

In: a `RunOrder`, one run of one program. Out: its `Report`. Both ends are ours and of the same version. Each message is
two frames (`sandbox.harness.pipe`), a JSON header and raw bytes. A connection that ends early raises
`EOFError`.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sandbox.harness.pipe import framed, read_frame
from sandbox.limits import Limits
from sandbox.program import Ending, ProgramOutcome
from sandbox.walls.seccomp import Walls


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """An order for one run: what is started, what it sees, and what it may use."""

    walls: Walls
    argv: tuple[str, ...]
    env: Mapping[str, str]  # HOME is added: the scratch folder
    readable: tuple[tuple[str, str], ...]  # (path here, path inside bubblewrap), read-only; may be missing
    writable: tuple[tuple[str, str], ...] = ()  # the same, of what is written beside the scratch
    kept_bytes: int | None = None  # of all folders among these together; None: nobody looks
    limits: Limits
    stack_bytes: int
    address_space: bool  # whether memory is also limited by addresses (not for node)
    stdin: bytes = b""
    has_loopback: bool = False  # whether it may speak TCP with itself, behind bubblewrap
    look_s: float = 0.02  # between two looks at memory and scratch
    kept: tuple[str, ...] = ()  # starts a process that is kept ready and forked for each run; (): none is


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The report on an order: an outcome, or why there is none."""

    outcome: ProgramOutcome | None
    broken: str = ""  # what of the machinery failed, where there is no outcome
    no_room: bool = False  # whether what failed was the machine's room


def send_order(connection: socket.socket, order: RunOrder) -> None:
    """Send an order from the scorer to its supervisor."""
    header = asdict(order)
    body = header.pop("stdin")
    _send(connection, header, body)


def receive_order(connection: socket.socket) -> RunOrder:
    """Receive an order at the supervisor. Raises EOFError when the scorer is gone."""
    header, body = _receive(connection)
    header["walls"] = Walls(header["walls"])
    header["limits"] = Limits(**header["limits"])
    header["argv"], header["kept"] = tuple(header["argv"]), tuple(header["kept"])
    for shown in ("readable", "writable"):
        header[shown] = tuple((here, inside) for here, inside in header[shown])
    return RunOrder(**header, stdin=body)


def send_report(connection: socket.socket, report: Report) -> None:
    """Send a report from the supervisor to its scorer."""
    outcome = report.outcome
    header: dict[str, Any] = {"broken": report.broken, "no_room": report.no_room}
    if outcome is None:
        _send(connection, header, b"")
        return
    header |= {
        "ending": outcome.ending.value,
        "exit_code": outcome.exit_code,
        "seconds": outcome.seconds,
        "detail": outcome.detail,
        "split": len(outcome.stdout),
        "crowded": outcome.is_crowded,
    }
    _send(connection, header, outcome.stdout + outcome.stderr)


def receive_report(connection: socket.socket) -> Report:
    """Receive a report at the scorer.

    Raises:
        EOFError: the supervisor is gone.
        TimeoutError: nothing came within the socket's timeout.
    """
    header, body = _receive(connection)
    if header["broken"]:
        return Report(outcome=None, broken=header["broken"], no_room=header["no_room"])
    split = header["split"]
    return Report(
        outcome=ProgramOutcome(
            ending=Ending(header["ending"]),
            exit_code=header["exit_code"],
            seconds=header["seconds"],
            detail=header["detail"],
            stdout=body[:split],
            stderr=body[split:],
            is_crowded=header["crowded"],
        )
    )


def _send(connection: socket.socket, header: Mapping[str, Any], body: bytes) -> None:
    """Write one header, and the bytes that belong to it."""
    connection.sendall(framed(json.dumps(header).encode()) + framed(body))


def _receive(connection: socket.socket) -> tuple[dict[str, Any], bytes]:
    """Read the next header and its bytes. Raises EOFError when the other side is gone."""
    header: dict[str, Any] = json.loads(read_frame(connection.recv))
    return header, read_frame(connection.recv)
