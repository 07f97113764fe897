"""What a server does with heads that are late or too much: a real uvicorn with each of its parsers, raw sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tests.support.waiting import wait_until
from web import connections as module
from web.connections import HEAD_FIELDS, Connections
from web.server import read_body

HEAD_S, TAKES_S = 0.5, 0.7
HEAD = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\n"


async def reply(request: Request) -> Response:
    """Read the body, think about a slow one, and say it again."""
    body = await read_body(request, 1000, within_s=TAKES_S)
    if isinstance(body, Response):
        return body
    if body == b"slow":
        await asyncio.sleep(TAKES_S)
    return PlainTextResponse(body)


PARSERS = {"httptools": "httptools_impl:HttpToolsProtocol", "h11": "h11_impl:H11Protocol"}


@contextmanager
def served(parser: str, *, answers: bool = True) -> Iterator[int]:
    """Serve `reply` with one of uvicorn's parsers; yields the port."""
    where, _, name = PARSERS[parser].partition(":")
    base = getattr(pytest.importorskip(f"uvicorn.protocols.http.{where}"), name)
    connections = Connections(answers=answers)
    app = connections.watched(Starlette(routes=[Route("/", reply, methods=["POST"])]))
    http = connections.protocol(base)
    server = uvicorn.Server(uvicorn.Config(app, port=0, http=http, log_config=None, access_log=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "HEAD_S", HEAD_S)
        patch.setattr(module, "HEAD_BYTES", 5000)
        thread = threading.Thread(target=server.run)
        thread.start()
        wait_until(lambda: server.started, within_s=60)
        yield server.servers[0].sockets[0].getsockname()[1]
        server.should_exit = True
        thread.join(20)
    assert connections._open == connections._deadlines == connections._heads == connections._refused == {}


@pytest.fixture(scope="module", params=sorted(PARSERS))
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    with served(request.param) as port:
        yield port


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


LATE, MUCH, MANY = (
    (b"408", b"the request's head had not come within 0.5 s"),
    (b"431", b"KiB of request line and headers"),
    (b"431", b"more than 100 headers"),
)
SILENCE = (b"", b"")


def fields(number: int, size: int = 10) -> bytes:
    return b"".join(b"x-%d: %s\r\n" % (place, b"a" * size) for place in range(number))


@pytest.mark.parametrize(
    ("pieces", "answer"),
    [
        ([], SILENCE),
        ([b"POST / HT"], LATE),
        ([HEAD], LATE),
        ([HEAD + b"x-1: a"], LATE),
        ([HEAD, fields(50, 200)], MUCH),
        ([HEAD, *[b"x: %s\r\n" % (b"a" * 90)] * 1000], MUCH),
        ([HEAD, b"x-1: ", *[b"a" * 1000] * 2000], MUCH),
        ([b"POST /", *[b"a" * 1000] * 2000], MUCH),
        ([b"a" * 100_000], MUCH),
        ([b"\r\n" * 10, b"POST /" + b"a" * 100_000], MUCH),
        ([HEAD + fields(10, 1000) + b"\r\n"], MUCH),  # whole, and too long all the same
        ([HEAD + b"x: a\r\n" * (HEAD_FIELDS + 1)], MANY),
        ([HEAD + b"a:\r\n" * 500 + b"\r\n"], MANY),
        ([HEAD, *[b"a:\r\n"] * 500], MANY),
    ],
)
def test_a_head_that_is_too_late_or_too_much_is_told_so(
    port: int, pieces: list[bytes], answer: tuple[bytes, bytes]
) -> None:
    heard = talk(port, *pieces)
    status, said = answer
    assert heard.startswith(b"HTTP/1.1 " + status if status else b"")
    assert said in heard
    assert bool(heard) == bool(said)
    assert b"connection: close" in heard or not heard


def test_blank_lines_before_a_request_are_passed_over(port: int) -> None:
    whole = HEAD + b"connection: close\r\ncontent-length: 4\r\n\r\nfast"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        for piece in (b"\r\n", b"\r\n" * 10, b"\r\n" + whole):
            line.sendall(piece)
            time.sleep(HEAD_S / 10)  # so that each comes by itself
        assert line.recv(4096).startswith(b"HTTP/1.1 200 OK")


def test_one_byte_after_the_other_a_head_may_come(port: int) -> None:
    whole = HEAD + b"connection: close\r\ncontent-length: 4\r\n" + fields(HEAD_FIELDS - 4) + b"\r\nfast"
    assert b"200 OK" in talk(port, *[whole[place : place + 7] for place in range(0, len(whole), 7)])


def test_a_body_is_no_head_however_large_it_is(port: int) -> None:
    body = b"b" * 900 + b"\r\n\r\n" + b"b" * 90
    line = HEAD + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
    for pieces in ([line + body], [line, body], [line + body[:5], body[5:]], [line[:-1], line[-1:] + body]):
        assert b"200 OK" in talk(port, *pieces)
    assert b"413" in talk(port, HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"8000\r\n" + b"b" * 0x8000)


def test_a_length_above_the_limit_is_refused_before_the_body_comes(port: int) -> None:
    for length in (b"1001", b"9" * 15, b"9" * 19):
        heard = talk(port, HEAD + b"content-length: " + length + b"\r\n\r\n")
        assert heard.startswith(b"HTTP/1.1 413 "), (length, "it waits for no body, which would be late: 408")
        assert b"connection: close" in heard


def test_a_length_that_is_none_is_refused_at_once(port: int) -> None:
    for length in (b"9" * 5000, b"-1", b"0x10", b"1e3"):
        heard = talk(port, HEAD + b"content-length: " + length + b"\r\n\r\n")
        assert heard[:12] in {b"HTTP/1.1 400", b"HTTP/1.1 413", b"HTTP/1.1 431"}, length


def test_a_head_behind_a_request_under_way_is_bounded_too(port: int) -> None:
    slow = HEAD + b"content-length: 4\r\n\r\nslow"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        line.sendall(slow)
        time.sleep(TAKES_S / 4)
        with pytest.raises(OSError, match=r"reset|Broken pipe"):
            line.sendall(b"a" * 10_000_000)


def test_a_client_that_takes_every_status_for_a_score_hears_nothing() -> None:
    with served("h11", answers=False) as port:
        assert talk(port, HEAD) == b""
        assert talk(port, HEAD, *[b"a" * 1000] * 100) == b""


def test_a_request_has_its_time_and_the_connection_waits_for_the_next_one(port: int) -> None:
    slow, fast = (HEAD + b"content-length: 4\r\n\r\n" + body for body in (b"slow", b"fast"))
    assert talk(port, slow, fast, HEAD).count(b"200 OK") == 2, "a slow one takes longer than a head may"


def test_a_body_that_does_not_come_is_told_so(port: int) -> None:
    heard = talk(port, HEAD + b"content-length: 4\r\n\r\nfo")
    assert heard.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in heard
    assert b"had not come within 0.7 s" in heard
