"""This module knows the connections of a server's clients: it bounds their requests' heads, and breaks one on demand.

In: what clients send to a uvicorn of this program. Out: the same bytes for uvicorn, as long as they are within bounds.
A head that is too long, has too many fields, or has not come in time is answered with 431 or 408, and the connection
closed; one that says nothing at all is closed. Used by every HTTP service of this program. It works beside HTTP on
purpose, with either of uvicorn's parsers: of these one has no limit, and neither has a clock. And a status tells
nothing to a client that takes every status for a score: the reward server breaks the connection instead.
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
    2.0  # from a refusal to the end of its connection: a client that still sends may read it first
)

_END: Final = re.compile(rb"\r?\n\r?\n")
Address = tuple[str, int]


@dataclass(slots=True)
class _Head:
    """The head of the next request, as far as it has come."""

    size: int = 0
    lines: int = 0
    tail: bytes = b""  # where the blank line at its end may begin
    is_whole: bool = False

    def fault(self, piece: bytes) -> str | None:
        """Take in what has come, and say why it is too much for a head; None: it is not. A body is not looked at."""
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
    """This object knows the open connections, by the client's address. One event loop uses it.

    Args:
        answers: whether clients know a status from a score, and are told why a connection ends.
    """

    def __init__(self, *, answers: bool = True) -> None:
        self._answers = answers
        self._open: dict[Address, asyncio.Transport] = {}
        self._deadlines: dict[Address, asyncio.TimerHandle] = {}  # of those without a request under way
        self._heads: dict[
            Address, _Head
        ] = {}  # of those whose last request, if there was one, has come whole
        self._refused: dict[Address, asyncio.TimerHandle] = {}  # whose end has been told to them

    def drop(self, client: Address) -> None:
        """Break a client's connection, without a word, unless the connection is gone."""
        if (transport := self._open.get(client)) is not None:
            transport.abort()

    def watched(self, app: ASGIApp) -> ASGIApp:
        """Give the application a deadline for the next request of every connection."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            client = tuple(scope.get("client") or ())[:2]
            self._end_wait(client)

            async def received() -> Message:
                message = await receive()
                if message["type"] == "http.request" and not message.get("more_body", False):
                    self._begin_head(
                        client
                    )  # what comes while this request is under way is another one's head
                return message

            try:
                await app(scope, received, send)
            finally:
                self._begin_wait(client)

        return watched

    def protocol(self, base: Any = None) -> type[asyncio.Protocol]:
        """Return uvicorn's protocol, changed so that it tells this object of every connection.

        Args:
            base: uvicorn's; None: the one that it takes by itself.
        """
        if base is None:
            from uvicorn.protocols.http.auto import AutoHTTPProtocol as base  # noqa: N813 - a value of theirs
        connections = self

        class Protocol(base):  # type: ignore[misc]
            """This protocol serves one connection."""

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
        """End a connection whose next request has not come."""
        if (head := self._heads.get(client)) is not None and head.size:
            self._refuse(
                client, HTTPStatus.REQUEST_TIMEOUT, f"the request's head had not come within {HEAD_S:g} s"
            )
        elif (transport := self._open.get(client)) is not None:
            transport.close()  # it sends the rest of a reply first

    def _passed(self, client: Address, data: bytes) -> bytes:
        """Return what is passed on: nothing, where with those before the bytes are too many for a head.

        Blank lines before a request are not (RFC 9112, 2.2): uvicorn's h11 answers them with 400.
        """
        if client in self._refused:
            return b""
        head = self._heads.get(client)
        if head is not None and head.size == 0:
            data = data.lstrip(b"\r\n")
        if head is None or (fault := head.fault(data)) is None:
            return data
        if (
            client not in self._deadlines
        ):  # behind a request that is under way, whose answer would come second
            self.drop(client)
        else:
            self._refuse(client, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, fault)
        return b""

    def _refuse(self, client: Address, status: HTTPStatus, fault: str) -> None:
        """Answer in the place of uvicorn, and end the connection a little later."""
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
