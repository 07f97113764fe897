"""One call of a sandbox server over HTTP: a request out, a checked reply in, before a deadline.

Used by `sandbox.remote.fusion`. Whatever keeps a server from a reply that can be believed raises `ServerTrouble`;
`Busy` and `RunRefused` are answers of a healthy server that did not run the program.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from pydantic import ValidationError

from sandbox.wire import CommandResult, RunReply, RunRequest
from web.client import BadAddress, BlockingClient, ServerTrouble

REFUSALS: Final = frozenset({400, 413, 422})
TEXT_BYTES: Final = 300  # of what a server says about its trouble
REST_S: Final = (0.05, 5.0)  # shortest and longest rest that a server may ask for


class RunRefused(Exception):
    """The server does not take this request, however often it is asked; says why."""

    def __init__(self, reason: str, *, is_size: bool) -> None:
        super().__init__(reason)
        self.is_size = is_size  # it is too large; another program may not be


def post_run(
    client: BlockingClient, url: str, request: RunRequest, *, timeout_s: float, max_bytes: int
) -> RunReply:
    """Have one server run one program.

    Args:
        client: keeps connections.
        url: of the server, without the path of the call.
        request: what to run.
        timeout_s: for the whole exchange.
        max_bytes: of the reply.
    Raises:
        ServerTrouble: no reply in time, or none that makes sense; Busy where the server has no room now.
        RunRefused: the server never takes this request.
    """
    body = request.model_dump_json().encode()
    try:
        answer = client.exchange("POST", f"{url}/run_code", body, timeout_s=timeout_s, max_bytes=max_bytes)
    except BadAddress as error:
        raise ServerTrouble(str(error)) from None
    if answer.status in REFUSALS:
        is_size = answer.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        raise RunRefused(f"HTTP {answer.status}: {answer.said}", is_size=is_size)
    answer.raise_for_server()
    if answer.status != HTTPStatus.OK:
        raise ServerTrouble(f"HTTP {answer.status}: {answer.said}")
    try:
        reply = RunReply.model_validate_json(answer.body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ServerTrouble(f"no reply of this API: {where}: {first['msg']}: {answer.said}") from None
    _check(reply)
    return reply


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


def rest_s(seconds: float | None) -> float:
    """Return the rest that a busy server is given, in seconds: what it asks for within `REST_S`, or 1.0."""
    shortest, longest = REST_S
    return 1.0 if seconds is None else min(max(seconds, shortest), longest)
