"""Length-prefixed frames, and the JSON messages between the process that checks (T) and the answer's process (C).

In: what `codec` makes of values. Out: bytes on a pipe, and back. What C sends is never trusted: bytes that are no
message raise `ProtocolError`, a closed pipe raises `Gone`. The interpreter's own accelerators (`_json`) are used
without their Python modules, whose import costs 8 ms of every run.

`framed` and `read_frame` are the only frames of `scorers`: the scoring child, the row worker, the sandbox's supervisor
and the sandbox service's runners use them too. They are here because this file must run alone inside the sandbox, and
so are the words of a kept interpreter (`kept`): nothing outside imports what executes.
"""

from __future__ import annotations

import _json
import os

if False:  # TYPE_CHECKING without importing typing: 5 ms
    from typing import Any

LENGTH_BYTES = 8  # before each frame, big-endian: the number of bytes that follow
_READ_BYTES = 1 << 20  # of a frame that one read asks for at most
MAX_DIGITS = 32  # of an integer in C's JSON
READY = b"ready"  # what a kept interpreter says once it can be forked
UP, STATUS = b"up\n", b"status "  # what a fork of it says: that its walls stand, how its program ended
MAX_MESSAGE_BYTES = 64 << 20  # of one message; more is refused, so that an answer can't fill T's memory


class ProtocolError(BaseException):
    """Bytes that are no message, or a value that can't travel. No `Exception`: tests must not swallow it."""


class Gone(BaseException):
    """The other process has closed the pipe."""


def framed(body: bytes) -> bytes:
    """Return the bytes of one frame: the length of `body`, then `body`."""
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def length_of(prefix: bytes) -> int:
    """Return the number of bytes that follow a frame's first `LENGTH_BYTES` bytes."""
    return int.from_bytes(prefix, "big")


def read_frame(read: Any, max_bytes: int | None = None) -> bytes:
    """Read the body of one frame.

    Args:
        read: called with a number of bytes; returns at least one and at most that many, or b"" where the sender has
            closed its end.
        max_bytes: of the body; None: any length.
    Raises:
        EOFError: the sender has closed its end before the frame or within it.
        ProtocolError: the frame is longer than `max_bytes`.
    """
    size = length_of(_exactly(read, LENGTH_BYTES))
    if max_bytes is not None and size > max_bytes:
        raise ProtocolError(f"a message of {size} bytes; {max_bytes} is the limit")
    return _exactly(read, size)


def _exactly(read: Any, size: int) -> bytes:
    parts = []
    while size:
        part = read(min(size, _READ_BYTES))
        if not part:
            raise EOFError("the other side has closed the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class _Syntax:
    """What the scanner asks of its context, for text of C's."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    memo: dict[str, str] = {}  # noqa: RUF012 - read by C code

    @staticmethod
    def parse_int(digits: str) -> int:
        """Read an integer: C's are below EXACT, longer ones it sends as hexadecimal text."""
        if len(digits) > MAX_DIGITS:
            raise ProtocolError("an integer that is too long")
        return int(digits)

    @staticmethod
    def parse_constant(name: str) -> float:
        """Read NaN and the infinities, in the payload only."""
        return float(name)


def _refuse(value: object) -> object:
    raise ProtocolError(f"{type(value).__name__} is no JSON")


class _RowSyntax(_Syntax):
    """The same for what the scorer sends: a row's integers may have any number of digits."""

    @staticmethod
    def parse_int(digits: str) -> int:
        """Read an integer."""
        return int(digits)


_c: Any = _json
_scan, _scan_row = _c.make_scanner(_Syntax), _c.make_scanner(_RowSyntax)


def json_text(value: Any) -> str:
    """Return a value as JSON in ASCII, lone surrogates escaped."""
    encode = _c.make_encoder(None, _refuse, _c.encode_basestring_ascii, None, ":", ",", False, False, True)
    return "".join(encode(value, 0))


def json_value(text: str, *, is_row: bool = False) -> Any:
    """Return the value of a JSON text; `is_row` says that the scorer sent it. Raises ProtocolError."""
    try:
        value, end = (_scan_row if is_row else _scan)(text, 0)
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
        view = memoryview(framed(body))
        try:
            while view:
                view = view[os.write(self.sink, view) :]
        except OSError:
            raise Gone from None

    def receive(self) -> Any:
        """Wait for one message. Raises Gone or ProtocolError."""
        try:
            body = read_frame(self._read, MAX_MESSAGE_BYTES)
        except (OSError, EOFError):
            raise Gone from None
        return json_value(body.decode("ascii", "replace"))

    def _read(self, size: int) -> bytes:
        return os.read(self.source, size)
