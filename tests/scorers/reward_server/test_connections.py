"""What the reward server does with connections that ask for nothing: a real uvicorn, raw sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from scorers.http_service import read_body
from scorers.reward_server import connections as module
from scorers.reward_server.connections import Connections
from tests.support.waiting import wait_until

HEAD_S, TAKES_S = 0.7, 0.9
HEAD = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\n"


async def reply(request: Request) -> Response:
    """Read the body, think about a slow one, and say it again."""
    body = await read_body(request, 1000, within_s=TAKES_S)
    if isinstance(body, Response):
        return body
    if body == b"slow":
        await asyncio.sleep(TAKES_S)
    return PlainTextResponse(body)


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(module, "HEAD_S", HEAD_S)
    monkeypatch.setattr(module, "HEAD_BYTES", 5000)
    connections = Connections()
    app = connections.watched(Starlette(routes=[Route("/", reply, methods=["POST"])]))
    server = uvicorn.Server(uvicorn.Config(app, port=0, http=connections.protocol(), log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: server.started, within_s=60)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(20)
    assert connections._open == connections._deadlines == connections._heard == {}


def talk(port: int, *pieces: bytes) -> bytes:
    """Send pieces, the next one after the end of a reply, and hear until the other side closes."""
    heard = b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        try:
            for piece in pieces:
                line.sendall(piece)
                while piece.endswith((b"slow", b"fast")) and not heard.endswith(piece[-4:]):
                    heard += line.recv(4096)
            while part := line.recv(4096):
                heard += part
        except (ConnectionResetError, BrokenPipeError):
            pass
    return heard


def endless() -> list[bytes]:
    return [HEAD, *[b"x-%d: %s\r\n" % (number, b"a" * 90) for number in range(1000)]]


@pytest.mark.parametrize(
    "pieces",
    [list, lambda: [b"POST / HT"], lambda: [HEAD], endless],
    ids=["silent", "half a line", "half a head", "endless head"],
)
def test_a_connection_without_a_request_is_closed(port: int, pieces: Callable[[], list[bytes]]) -> None:
    assert talk(port, *pieces()) == b""


def test_a_request_has_its_time_and_the_connection_waits_for_the_next_one(port: int) -> None:
    slow, fast = (HEAD + b"content-length: 4\r\n\r\n" + body for body in (b"slow", b"fast"))
    assert talk(port, slow, fast, HEAD).count(b"200 OK") == 2, "a slow one takes longer than a head may"


def test_a_body_that_does_not_come_is_told_so(port: int) -> None:
    heard = talk(port, HEAD + b"content-length: 4\r\n\r\nfo")
    assert heard.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in heard
    assert b"had not come within 0.9 s" in heard
