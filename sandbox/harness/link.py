"""Requests and replies between T and C: either side asks, and serves the other's questions while it waits.

In: an operation's name and its arguments. Out: its value, or the exception that it raised. Containers among the
arguments that the operation changed are changed here too, as an in-place sort must be. `codec` makes the bytes.
"""

from __future__ import annotations

import builtins
from _thread import RLock

from sandbox.harness.codec import Encoder, Extern, ValueDecoder
from sandbox.harness.pipe import Gone, Pipe, ProtocolError

if False:
    from typing import Any

MAX_DEPTH = 100  # of questions within questions
EXCEPTIONS = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
}


class Side(Extern):
    """One of the two processes, as its link sees it."""

    swallowed: Any = Exception  # what of an operation's exceptions is told to the other side

    def perform(self, operation: str, arguments: Any) -> Any:
        """Perform the operation that the other side asks for."""
        raise NotImplementedError

    def class_id(self, kind: type) -> int | None:
        """Return the reference to an exception class that is not built in."""
        raise NotImplementedError

    def exception_class(self, lineage: Any) -> type[BaseException]:
        """Return the class of this side that stands for a class of the other side."""
        raise NotImplementedError


class Link:
    """One end of the conversation. Threads take turns."""

    def __init__(self, pipe: Pipe, side: Side) -> None:
        self.pipe, self.side = pipe, side
        self.broken: BaseException | None = None  # what ended the conversation, should a test swallow it
        self._turn = RLock()
        self._depth = 0

    def ask(self, operation: str, *arguments: Any) -> Any:
        """Have the other side do an operation. Raises its exception, Gone, ProtocolError or RecursionError."""
        with self._turn:
            if self._depth >= MAX_DEPTH:
                raise RecursionError("calls between the tests and the program are nested too deeply")
            self._depth += 1
            try:
                encoder = Encoder(self.side)
                self.pipe.send(["do", operation, *encoder.message(arguments)])
                return self._reply(encoder, is_next=operation == "op" and arguments[0] == "next")
            except (Gone, ProtocolError) as error:
                self.broken = error
                raise
            finally:
                self._depth -= 1

    def _reply(self, encoder: Encoder, *, is_next: bool) -> Any:
        while True:
            message = self.pipe.receive()
            if type(message) is not list or len(message) != 4 or type(message[3]) is not list:
                raise ProtocolError("no message of ours")
            kind, operation, root, table = message
            if kind == "do":
                self.serve(operation, root, table)
                continue
            value = ValueDecoder(self.side, encoder.objects).message(root, table)
            if kind == "ok":
                return value
            error = restored(self.side, value)
            if isinstance(error, (StopIteration, StopAsyncIteration)) and not is_next:
                # raised by a call, it would end a loop of the tests, `all(map(check, cases))`, without a word
                raise RuntimeError(f"the program raised {type(error).__name__}")
            raise error

    def serve(self, operation: str, root: Any, table: list[Any]) -> None:
        """Perform one operation that the other side asked for, and reply."""
        decoder = ValueDecoder(self.side)
        arguments = decoder.message(root, table)
        try:
            kind, value = "ok", self.side.perform(operation, arguments)
            encoder = Encoder(self.side, decoder.objects)
            reply = encoder.message(value, table)
        except self.side.swallowed as error:
            kind, encoder = "raise", Encoder(self.side, decoder.objects)
            reply = encoder.message(described(self.side, error), table)
        with self._turn:
            self.pipe.send([kind, "", *reply])


def lineage_of(side: Side, kind: type) -> list[Any]:
    """Describe an exception class with its bases up to the first built-in one, each [reference, module, name]."""
    lineage: list[Any] = []
    for base in kind.__mro__:
        if EXCEPTIONS.get(base.__name__) is base:
            return [*lineage, [None, "builtins", base.__name__]]
        if issubclass(base, BaseException):
            lineage.append([side.class_id(base), str(base.__module__), str(base.__name__)])
    return [*lineage, [None, "builtins", "Exception"]]


def described(side: Side, error: BaseException) -> tuple[Any, ...]:
    """Describe an exception as data."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the answer's own __str__
        text = ""
    return lineage_of(side, type(error)), text, tuple(error.args), dict(vars(error))


def restored(side: Side, described_error: Any) -> BaseException:
    """Return the exception that such data describes. Raises ProtocolError."""
    try:
        lineage, text, arguments, attributes = described_error
        kind = side.exception_class(lineage)
        try:
            error = kind.__new__(kind, *arguments)
            error.args = arguments
        except Exception:  # noqa: BLE001 - a class that wants other arguments
            error = Exception(text)
        for name, value in attributes.items():
            if isinstance(name, str) and not name.startswith("__"):
                setattr(error, name, value)
        error.__dict__["_text"] = text
    except (TypeError, ValueError, AttributeError, KeyError) as problem:
        raise ProtocolError(f"malformed exception: {problem!r}") from None
    return error
