"""Functions for this program's HTTP services: the sandbox's and the reward server's.

In: requests of Starlette. Out: a checked body, or an answer that describes what is wrong with it, in FastAPI's format:
`{"detail": ...}`, a list of faults with their locations for 422. Work is cancelled when its client has disconnected,
and a server ends on SIGTERM after its running work.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from web.connections import HEAD_BYTES, Connections

log = logging.getLogger(__name__)

GONE: Final = 499  # status of an answer that nobody reads
LENGTH_DIGITS: Final = 20  # of a length that any parser accepts
BODY_S: Final = 30.0  # for a body to arrive: the clients of these services wait no longer for a reply


async def read_body(request: Request, most_bytes: int, *, within_s: float = BODY_S) -> bytes | Response:
    """Read a request's body, or answer what is wrong with it: no JSON 415, too large 413, too slow 408.

    A body whose declared length is too large is refused before any of it is read.
    """
    too_large = error(413, f"more than {most_bytes >> 20} MiB of request", connection="close")
    said = request.headers.get("content-length", "")
    if said.isdecimal() and (len(said) > LENGTH_DIGITS or int(said) > most_bytes):
        return too_large
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return error(415, "the request's content-type has to be application/json", connection="close")
    body = bytearray()
    try:
        async with asyncio.timeout(within_s):
            async for piece in request.stream():
                body += piece
                if len(body) > most_bytes:
                    return too_large
    except TimeoutError:
        return error(408, f"the request's body had not come within {within_s:g} s", connection="close")
    except ClientDisconnect:
        return Response(status_code=GONE)
    return bytes(body)


def faults(found: ValidationError) -> Response:
    """Answer 422 with pydantic's errors about a body."""
    details = [
        {"type": one["type"], "loc": ["body", *one["loc"]], "msg": one["msg"]}
        for one in found.errors(include_url=False, include_context=False, include_input=False)
    ]
    return unprocessable(details)


def unprocessable(details: Sequence[Mapping[str, Any]]) -> Response:
    """Answer 422 with these faults, each with `type`, `loc` and `msg`."""
    return JSONResponse({"detail": list(details)}, status_code=422)


def error(status: int, detail: str, **headers: str) -> Response:
    """Refuse a request with one sentence that gives the reason."""
    return JSONResponse({"detail": detail}, status_code=status, headers=headers)


async def unless_gone(request: Request, answer: Coroutine[None, None, Response]) -> Response:
    """Await the answer; if the client disconnects first, cancel the work.

    The request's body must have been read before.
    """
    work = asyncio.create_task(answer)
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        log.info("client_gone path=%s", request.url.path)
        return Response(status_code=GONE)
    finally:
        for task in (work, gone):
            task.cancel()
        await asyncio.gather(work, gone, return_exceptions=True)


def serve_app(
    app: ASGIApp, host: str, port: int, connections: Connections | None = None, **options: Any
) -> int:
    """Serve until SIGTERM or Ctrl-C, then finish running requests. Returns 0: stopped; 1: could not start.

    Args:
        app: answers the requests.
        host: the address to listen on.
        port: the port.
        connections: the clients' connections; None: they are tracked only here.
        options: of uvicorn, in addition to those for every service.
    """
    import uvicorn

    connections = connections or Connections()
    server = uvicorn.Server(
        uvicorn.Config(
            connections.watched(app),
            http=connections.protocol(),
            h11_max_incomplete_event_size=2
            * HEAD_BYTES,  # one of its parsers has its own limit, but our limit gives the reason
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            log_level="warning",
            loop="asyncio",
            ws="none",
            server_header=False,
            date_header=False,
            **options,
        )
    )
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn handles them, and raises them again at its end
        signal.signal(number, lambda _number, _frame: None)
    try:
        server.run()
    except SystemExit as end:  # uvicorn could not start, and has logged the reason
        return 1 if end.code else 0
    return 0


async def _disconnected(request: Request) -> None:
    """Wait until the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
