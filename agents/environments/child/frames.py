"""Exchange frames between a worker and its environments' processes: a length of 8 bytes, then a JSON object in ASCII.

Out and in: JSON objects. A closed socket raises EOFError; both sides use this file.
"""

from __future__ import annotations

import array
import json
import socket
from typing import Any

LENGTH_BYTES = 8  # before each frame, big-endian
MAX_BYTES = 64 << 20  # of one frame; larger ones are refused
MAX_DESCRIPTORS = 4  # with one frame


def framed(message: dict[str, Any]) -> bytes:
    """Return a frame. Raises TypeError, ValueError or RecursionError where JSON can't hold the message."""
    body = json.dumps(message).encode("ascii")
    if len(body) > MAX_BYTES:
        raise ValueError(f"a message of {len(body)} bytes; {MAX_BYTES} is the limit")
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def length_of(prefix: bytes) -> int:
    """Return the number of bytes after a frame's first `LENGTH_BYTES`. Raises ValueError above the limit."""
    length = int.from_bytes(prefix, "big")
    if length > MAX_BYTES:
        raise ValueError(f"a message of {length} bytes; {MAX_BYTES} is the limit")
    return length


def message_of(body: bytes) -> dict[str, Any]:
    """Decode a frame's body. Raises ValueError or RecursionError where it is no JSON object."""
    message = json.loads(body)
    if not isinstance(message, dict):
        raise ValueError(f"a JSON object is wanted, got {type(message).__name__}")  # noqa: TRY004 - as other bad JSON
    return message


def send(link: socket.socket, message: dict[str, Any]) -> None:
    """Write one frame. Raises OSError where the other side is gone."""
    link.sendall(framed(message))


def receive(link: socket.socket) -> dict[str, Any]:
    """Read one frame from a blocking socket."""
    return message_of(_exactly(link, length_of(_exactly(link, LENGTH_BYTES))))


def receive_with_descriptors(link: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Read one frame from a blocking socket, and the descriptors that came with it."""
    found = array.array("i")
    data, others, _, _ = link.recvmsg(LENGTH_BYTES, socket.CMSG_SPACE(MAX_DESCRIPTORS * found.itemsize))
    for level, kind, body in others:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(body[: len(body) - len(body) % found.itemsize])
    if not data:
        raise EOFError
    prefix = data + _exactly(link, LENGTH_BYTES - len(data))
    return message_of(_exactly(link, length_of(prefix))), list(found)


def _exactly(link: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = link.recv(min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
