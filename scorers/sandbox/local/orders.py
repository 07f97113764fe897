"""What the scorer and its supervisor say to each other over their socket pair: one order, one report, in turn.

In: an `Order`, one run of one program. Out: its `Report`. Both ends are ours and of the same version; a frame is two
lengths, a JSON header and raw bytes. A connection that ends within a frame raises `EOFError`.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from scorers.sandbox.program import Ending, Limits, Outcome
from scorers.sandbox.walls.seccomp import Walls

FRAME = struct.Struct("<II")  # bytes of the header, bytes that follow it


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One run: what is started, what it sees, and what it may use."""

    walls: Walls
    argv: tuple[str, ...]
    env: Mapping[str, str]  # HOME is added: the scratch folder
    readable: tuple[tuple[str, str], ...]  # (path here, path inside bubblewrap), read-only; may be missing
    writable: tuple[str, str] | None = None  # the same, of the one folder beside the scratch that is written
    limits: Limits
    stack_bytes: int
    address_space: bool  # whether memory is also limited by addresses (not for node)
    stdin: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How it went: an outcome, or why there is none."""

    outcome: Outcome | None
    broken: str = ""  # what of the machinery failed, where there is no outcome
    no_room: bool = False  # whether what failed was the machine's room


def send_order(connection: socket.socket, order: Order) -> None:
    """Scorer to supervisor."""
    header = asdict(order)
    body = header.pop("stdin")
    send_frame(connection, header, body)


def receive_order(connection: socket.socket) -> Order:
    """At the supervisor. Raises EOFError when the scorer is gone."""
    header, body = receive_frame(connection)
    header["walls"] = Walls(header["walls"])
    header["limits"] = Limits(**header["limits"])
    header["argv"] = tuple(header["argv"])
    header["readable"] = tuple((here, inside) for here, inside in header["readable"])
    return Order(**header, stdin=body)


def send_report(connection: socket.socket, report: Report) -> None:
    """Supervisor to scorer."""
    outcome = report.outcome
    header: dict[str, Any] = {"broken": report.broken, "no_room": report.no_room}
    if outcome is None:
        send_frame(connection, header, b"")
        return
    header |= {
        "ending": outcome.ending.value,
        "exit_code": outcome.exit_code,
        "seconds": outcome.seconds,
        "detail": outcome.detail,
        "split": len(outcome.stdout),
        "crowded": outcome.is_crowded,
    }
    send_frame(connection, header, outcome.stdout + outcome.stderr)


def receive_report(connection: socket.socket) -> Report:
    """At the scorer. Raises EOFError when the supervisor is gone, TimeoutError after the socket's timeout."""
    header, body = receive_frame(connection)
    if header["broken"]:
        return Report(outcome=None, broken=header["broken"], no_room=header["no_room"])
    split = header["split"]
    return Report(
        outcome=Outcome(
            ending=Ending(header["ending"]),
            exit_code=header["exit_code"],
            seconds=header["seconds"],
            detail=header["detail"],
            stdout=body[:split],
            stderr=body[split:],
            is_crowded=header["crowded"],
        )
    )


def send_frame(connection: socket.socket, header: Mapping[str, Any], body: bytes) -> None:
    """One header with the bytes that belong to it."""
    text = json.dumps(header).encode()
    connection.sendall(FRAME.pack(len(text), len(body)) + text + body)


def receive_frame(connection: socket.socket) -> tuple[dict[str, Any], bytes]:
    """The next one."""
    header_bytes, body_bytes = FRAME.unpack(receive_exactly(connection, FRAME.size))
    header: dict[str, Any] = json.loads(receive_exactly(connection, header_bytes))
    return header, receive_exactly(connection, body_bytes)


def receive_exactly(connection: socket.socket, count: int) -> bytes:
    """So many bytes, or EOFError."""
    received = bytearray()
    while len(received) < count:
        chunk = connection.recv(min(count - len(received), 1 << 20))
        if not chunk:
            raise EOFError("the other end is gone")
        received += chunk
    return bytes(received)
