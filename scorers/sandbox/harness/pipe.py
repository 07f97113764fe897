"""Messages between the process that checks (T) and the one that runs the answer (C): JSON, each with its length.

In: what `codec` makes of values. Out: bytes on a pipe, and back. What C sends is never trusted: bytes that are no
message raise `ProtocolError`, a closed pipe raises `Gone`. The interpreter's own accelerators (`_json`) are used
without their Python modules, whose import costs 8 ms of every run.
"""

from __future__ import annotations

import _json
import os

if False:  # TYPE_CHECKING without importing typing: 5 ms
    from typing import Any

MAX_MESSAGE_BYTES = 64 << 20  # of one message; more is refused, so that an answer can't fill T's memory


class ProtocolError(BaseException):
    """Bytes that are no message, or a value that can't travel. No `Exception`: tests must not swallow it."""


class Gone(BaseException):
    """The other process has closed the pipe."""


class _Syntax:
    """What the scanner asks of its context."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    memo: dict[str, str] = {}  # noqa: RUF012 - read by C code

    @staticmethod
    def parse_int(digits: str) -> int:
        """Those of C are below EXACT; those of a row may be longer, up to what the interpreter itself allows."""
        if len(digits) > 4300:
            raise ProtocolError("an integer that is too long")
        return int(digits)

    @staticmethod
    def parse_constant(name: str) -> float:
        """NaN and the infinities, in the payload only."""
        return float(name)


def _refuse(value: object) -> object:
    raise ProtocolError(f"{type(value).__name__} is no JSON")


_c: Any = _json
_scan = _c.make_scanner(_Syntax)


def json_text(value: Any) -> str:
    """JSON in ASCII, lone surrogates escaped."""
    encode = _c.make_encoder(None, _refuse, _c.encode_basestring_ascii, None, ":", ",", False, False, True)
    return "".join(encode(value, 0))


def json_value(text: str) -> Any:
    """The value of a JSON text. Raises ProtocolError."""
    try:
        value, end = _scan(text, 0)
    except (ValueError, StopIteration, RecursionError) as error:
        raise ProtocolError(f"no JSON: {error!r}") from None
    if end != len(text):
        raise ProtocolError("more than one JSON value")
    return value


class Pipe:
    """Messages, each with its length before it, over two file descriptors."""

    def __init__(self, source: int, sink: int) -> None:
        self.source, self.sink = source, sink

    def send(self, message: Any) -> None:
        """Write one message. Raises Gone."""
        body = json_text(message).encode("ascii")
        view = memoryview(len(body).to_bytes(8, "big") + body)
        try:
            while view:
                view = view[os.write(self.sink, view) :]
        except OSError:
            raise Gone from None

    def receive(self) -> Any:
        """Wait for one message. Raises Gone or ProtocolError."""
        size = int.from_bytes(self._take(8), "big")
        if size > MAX_MESSAGE_BYTES:
            raise ProtocolError(f"a message of {size} bytes; {MAX_MESSAGE_BYTES} is the limit")
        return json_value(self._take(size).decode("ascii", "replace"))

    def _take(self, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = os.read(self.source, min(size, 1 << 20))
            except OSError:
                raise Gone from None
            if not part:
                raise Gone
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
