"""This module knows the connections of a server's clients, breaks one on demand, and closes those that stay idle.

It works beside HTTP on purpose. A status tells nothing to a client that takes every status for a score. And nothing
can be answered to a client that never ends its request's head.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

HEAD_S: Final = 10.0  # for the head of a request; after a reply uvicorn closes an idle connection in five
HEAD_BYTES: Final = 1 << 20  # of a head, with the part of the body that comes along

Address = tuple[str, int]


class Connections:
    """This object knows the open connections, by the client's address. One event loop uses it."""

    def __init__(self) -> None:
        self._open: dict[Address, asyncio.Transport] = {}
        self._deadlines: dict[Address, asyncio.TimerHandle] = {}  # of those without a request under way
        self._heard: dict[Address, int] = {}  # bytes that came from these

    def drop(self, client: Address) -> None:
        """Break a client's connection, without a word, unless the connection is gone."""
        if (transport := self._open.get(client)) is not None:
            transport.abort()

    def watched(self, app: ASGIApp) -> ASGIApp:
        """Give the application a deadline for the next request of every connection."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            client = tuple(scope.get("client") or ())[:2]
            self._end_wait(client)
            try:
                await app(scope, receive, send)
            finally:
                self._begin_wait(client)

        return watched

    def protocol(self) -> type[asyncio.Protocol]:
        """Return uvicorn's protocol, changed so that it tells this object of every connection."""
        from uvicorn.protocols.http.auto import AutoHTTPProtocol

        base: Any = AutoHTTPProtocol
        connections = self

        class Protocol(base):  # type: ignore[misc]
            """This protocol serves one connection."""

            def connection_made(self, transport: asyncio.Transport) -> None:
                super().connection_made(transport)
                self._address = tuple(transport.get_extra_info("peername") or ())[:2]
                connections._open[self._address] = transport
                connections._begin_wait(self._address)

            def data_received(self, data: bytes) -> None:
                if connections._takes(self._address, len(data)):
                    super().data_received(data)

            def connection_lost(self, exc: Exception | None) -> None:
                connections._open.pop(self._address, None)
                connections._end_wait(self._address)
                super().connection_lost(exc)

        return Protocol

    def _begin_wait(self, client: Address) -> None:
        transport = self._open.get(client)
        if transport is not None and client not in self._deadlines:
            loop = asyncio.get_running_loop()
            # `close` sends the rest of a reply first.
            self._deadlines[client] = loop.call_later(HEAD_S, transport.close)
            self._heard[client] = 0

    def _end_wait(self, client: Address) -> None:
        if (deadline := self._deadlines.pop(client, None)) is not None:
            deadline.cancel()
            del self._heard[client]

    def _takes(self, client: Address, number: int) -> bool:
        """Say whether bytes are passed on: with those before, they are not too many for a head."""
        if client in self._heard:
            self._heard[client] += number
            if self._heard[client] > HEAD_BYTES:
                self.drop(client)
                return False
        return True
