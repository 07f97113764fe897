"""Track the connections of a server's clients: limit the heads of their requests, and break connections on demand.

In: the bytes that clients send to a uvicorn of this program. Out: the same bytes for uvicorn, as long as they are
within the limits. A head that is too long, has too many fields, or does not arrive in time is answered with 431 or 408,
and the connection is closed. A connection that sends nothing is closed without an answer. Used by every HTTP service of
this program. It works below HTTP, with either of uvicorn's parsers: one of them has no limit, and neither has a
deadline. Also, clients that take every status for a score can't be informed by a status: the reward server breaks the
connection instead.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEAD_S: Final = 10.0  # for the head of a request; after a reply uvicorn closes an idle connection in five
HEAD_BYTES: Final = 1 << 16  # of a head, with its first line
HEAD_FIELDS: Final = 100  # of a head
LINGER_S: Final = (
    2.0  # from a refusal to the end of its connection, so that a client that still sends can read it
)

_END: Final = re.compile(rb"\r?\n\r?\n")
Address = tuple[str, int]


@dataclass(slots=True)
class _Head:
    """Head of the next request, as far as it has arrived."""

    size: int = 0
    lines: int = 0
    tail: bytes = b""  # end of the data, where the blank line may begin
    is_whole: bool = False

    def fault(self, piece: bytes) -> str | None:
        """Add received bytes; return why they are too much for a head, or None. The body is not checked."""
        if self.is_whole:
            return None
        joined = self.tail + piece
        if (end := _END.search(joined)) is not None:
            self.is_whole, piece = True, joined[len(self.tail) : end.end()]
        self.size += len(piece)
        self.lines += piece.count(b"\n")
        self.tail = joined[-3:]
        if self.size > HEAD_BYTES:
            return f"more than {HEAD_BYTES >> 10} KiB of request line and headers"
        return f"more than {HEAD_FIELDS} headers" if self.lines > HEAD_FIELDS + 2 else None


class Connections:
    """Open connections by the client's address. Belongs to one event loop.

    Args:
        answers: whether clients can tell a status from a score, so that they are sent the reason when a connection is
            ended.
    """

    def __init__(self, *, answers: bool = True) -> None:
        self._answers = answers
        self._open: dict[Address, asyncio.Transport] = {}
        self._deadlines: dict[Address, asyncio.TimerHandle] = {}  # of connections without a running request
        self._heads: dict[Address, _Head] = {}  # of connections whose last request, if any, is complete
        self._refused: dict[Address, asyncio.TimerHandle] = {}  # of connections that were sent a refusal

    def drop(self, client: Address) -> None:
        """Break a client's connection without an answer, if it is still open."""
        if (transport := self._open.get(client)) is not None:
            transport.abort()

    def watched(self, app: ASGIApp) -> ASGIApp:
        """Wrap the application, so that the next request of every connection has a deadline."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            client = tuple(scope.get("client") or ())[:2]
            self._end_wait(client)

            async def received() -> Message:
                message = await receive()
                if message["type"] == "http.request" and not message.get("more_body", False):
                    self._begin_head(client)  # bytes that arrive during this request belong to the next head
                return message

            try:
                await app(scope, received, send)
            finally:
                self._begin_wait(client)

        return watched

    def protocol(self, base: Any = None) -> type[asyncio.Protocol]:
        """Return uvicorn's protocol, changed so that it registers every connection here.

        Args:
            base: uvicorn's protocol class; None: uvicorn's default.
        """
        if base is None:
            from uvicorn.protocols.http.auto import AutoHTTPProtocol as base  # noqa: N813 - a value of theirs
        connections = self

        class Protocol(base):  # type: ignore[misc]
            """Protocol of one connection."""

            def connection_made(self, transport: asyncio.Transport) -> None:
                super().connection_made(transport)
                self._address = tuple(transport.get_extra_info("peername") or ())[:2]
                connections._open[self._address] = transport
                connections._begin_wait(self._address)

            def data_received(self, data: bytes) -> None:
                if passed := connections._passed(self._address, data):
                    super().data_received(passed)

            def connection_lost(self, exc: Exception | None) -> None:
                connections._forget(self._address)
                super().connection_lost(exc)

        return Protocol

    def _forget(self, client: Address) -> None:
        self._open.pop(client, None)
        self._heads.pop(client, None)
        for timers in (self._deadlines, self._refused):
            if (timer := timers.pop(client, None)) is not None:
                timer.cancel()

    def _begin_head(self, client: Address) -> None:
        if client in self._open:
            self._heads.setdefault(client, _Head())

    def _begin_wait(self, client: Address) -> None:
        if client in self._open and client not in self._deadlines:
            self._begin_head(client)
            loop = asyncio.get_running_loop()
            self._deadlines[client] = loop.call_later(HEAD_S, self._give_up, client)

    def _end_wait(self, client: Address) -> None:
        self._heads.pop(client, None)
        if (deadline := self._deadlines.pop(client, None)) is not None:
            deadline.cancel()

    def _give_up(self, client: Address) -> None:
        """End a connection whose next request has not arrived."""
        if (head := self._heads.get(client)) is not None and head.size:
            self._refuse(
                client, HTTPStatus.REQUEST_TIMEOUT, f"the request's head had not come within {HEAD_S:g} s"
            )
        elif (transport := self._open.get(client)) is not None:
            transport.close()  # it sends the rest of a reply first

    def _passed(self, client: Address, data: bytes) -> bytes:
        """Return the bytes to pass on: none if the head, with earlier bytes, is too large.

        Blank lines before a request are dropped (RFC 9112, 2.2): uvicorn's h11 answers them with 400.
        """
        if client in self._refused:
            return b""
        head = self._heads.get(client)
        if head is not None and head.size == 0:
            data = data.lstrip(b"\r\n")
        if head is None or (fault := head.fault(data)) is None:
            return data
        if client not in self._deadlines:  # after a running request, so this one's answer would have to wait
            self.drop(client)
        else:
            self._refuse(client, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, fault)
        return b""

    def _refuse(self, client: Address, status: HTTPStatus, fault: str) -> None:
        """Answer instead of uvicorn, and end the connection a little later."""
        if not self._answers:
            self.drop(client)
            return
        transport = self._open[client]
        body = json.dumps({"detail": fault}).encode()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        transport.write(head.encode("ascii") + body)
        if transport.can_write_eof():
            transport.write_eof()
        self._refused[client] = asyncio.get_running_loop().call_later(LINGER_S, transport.abort)
