"""One call of a sandbox server over HTTP: a request out, a checked reply in, before a deadline.

Used by `scorers.sandbox.remote.fusion`. Whatever keeps a server from a reply that can be believed raises
`ServerTrouble`, naming it; `Busy` and `Refused` are answers of a healthy server that did not run the program.
"""

from __future__ import annotations

import time
from typing import Final

import httpx
from pydantic import ValidationError

from scorers.sandbox.remote.probed_servers import ServerTrouble
from scorers.sandbox.wire import CommandResult, RunReply, RunRequest
from scorers.servers.retry_after import retry_after_s

REFUSALS: Final = frozenset({400, 413, 422})
CLOSED: Final = "the sandbox was closed"
TEXT_BYTES: Final = 300  # of what a server says about its trouble
REST_S: Final = (0.05, 5.0)  # shortest and longest rest that a server may ask for


class Busy(Exception):
    """The server has no room now."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"busy for {seconds:g} s")
        self.seconds = seconds


class Refused(Exception):
    """The server does not take this request, however often it is asked; says why."""

    def __init__(self, reason: str, *, is_size: bool) -> None:
        super().__init__(reason)
        self.is_size = is_size  # it is too large; another program may not be


def post_run(
    client: httpx.Client, url: str, request: RunRequest, *, timeout_s: float, max_bytes: int
) -> RunReply:
    """Have one server run one program.

    Args:
        client: keeps connections.
        url: of the server, without the path of the call.
        request: what to run.
        timeout_s: for the whole exchange.
        max_bytes: of the reply.
    Raises:
        ServerTrouble: no reply in time, or none that makes sense.
        Busy: the server has no room now.
        Refused: the server never takes this request.
    """
    response, body = _exchanged(client, url, request, timeout_s=timeout_s, max_bytes=max_bytes)
    status = response.status_code
    text = body[:TEXT_BYTES].decode(errors="replace")
    if status in REFUSALS:
        raise Refused(f"HTTP {status}: {text}", is_size=status == httpx.codes.REQUEST_ENTITY_TOO_LARGE)
    if status in (429, 503) and "retry-after" in response.headers:
        raise Busy(_rest_s(response.headers["retry-after"]))
    if status != httpx.codes.OK:
        raise ServerTrouble(f"HTTP {status}: {text}")
    try:
        reply = RunReply.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ServerTrouble(f"no reply of this API: {where}: {first['msg']}: {text}") from None
    _check(reply)
    return reply


def _exchanged(
    client: httpx.Client, url: str, request: RunRequest, *, timeout_s: float, max_bytes: int
) -> tuple[httpx.Response, bytes]:
    """Send a request and read the whole reply. Raises ServerTrouble where none comes in time."""
    deadline = time.monotonic() + timeout_s
    body = bytearray()
    try:
        with client.stream(
            "POST", f"{url}/run_code", json=request.model_dump(), timeout=timeout_s
        ) as response:
            for piece in response.iter_bytes():
                body += piece
                if len(body) > max_bytes:
                    raise ServerTrouble(f"more than {max_bytes >> 20} MiB of reply")
                if time.monotonic() > deadline:
                    raise ServerTrouble(f"no whole reply in {timeout_s:g} s")
    except httpx.TimeoutException:
        raise ServerTrouble(f"no reply in {timeout_s:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ServerTrouble(f"{type(error).__name__}: {error}") from error
    except RuntimeError as error:
        if not client.is_closed:
            raise
        raise ServerTrouble(CLOSED) from error  # by another thread, after this one had been given the client
    return response, bytes(body)


def compile_failed(reply: RunReply) -> bool:
    """Return whether the compiler refused the program, so that it did not run."""
    result = reply.compile_result
    return (
        reply.run_result is None
        and result is not None
        and (result.status == "TimeLimitExceeded" or result.return_code not in (0, None))
    )


def _check(reply: RunReply) -> None:
    """Refuse a reply that says nothing of the program, or contradicts itself. Raises ServerTrouble."""
    if reply.status == "SandboxError":
        raise ServerTrouble(f"SandboxError: {(reply.message or '')[:TEXT_BYTES]}")
    results = [result for result in (reply.compile_result, reply.run_result) if result is not None]
    if reply.run_result is None and not compile_failed(reply):
        raise ServerTrouble(f"status {reply.status} without a result of the run")
    for result in results:
        if result.status == "Error":
            raise ServerTrouble(f"the sandbox's own error: {(result.stderr or '')[:TEXT_BYTES]}")
        if result.status == "Finished" and result.return_code is None:
            raise ServerTrouble("a finished run without a return code")
    if (reply.status == "Success") != all(_succeeded(result) for result in results):
        said = [(result.status, result.return_code) for result in results]
        raise ServerTrouble(f"status {reply.status} contradicts {said}")


def _succeeded(result: CommandResult) -> bool:
    return result.status == "Finished" and result.return_code == 0


def _rest_s(header: str) -> float:
    """Return the rest that a `Retry-After` asks for, in seconds, within `REST_S`; 1.0 where it says nothing of use."""
    seconds = retry_after_s(header)
    shortest, longest = REST_S
    return 1.0 if seconds is None else min(max(seconds, shortest), longest)
