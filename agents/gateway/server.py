"""Serve the policy to agents from each agents' worker, by an address and a key for each episode: the gateway.

In: requests of OpenAI's and Anthropic's APIs. Out: their answers, whole or as events, once the turn is recorded. A key
expires with its play of the episode; later calls are refused by name. Requests are not logged. Slow answers keep their
connection open by the API's own means. A client that disconnects does not cancel its call. Runs in the worker's event
loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ipaddress
import json
import os
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from agents.gateway.calls import AgentCall, PlayCalls
from agents.gateway.dialects.chat import Chat
from agents.gateway.dialects.completions import Completions
from agents.gateway.dialects.dialect import (
    ENDED,
    NOT_FOUND,
    TOO_LARGE,
    TOO_SLOW,
    UNKNOWN_KEY,
    ApiRequest,
    CallRefused,
    Dialect,
    PolicyAnswer,
)
from agents.gateway.dialects.messages import Messages
from agents.gateway.dialects.responses import Responses
from agents.gateway.remote import RemoteEpisodes
from broker.errors import Permanent
from config.episodes.agents import GatewayConfig
from config.run import Run
from sandbox.local.folders import remove_folder
from sandbox.local.supervisors import own_folder

MOST_BYTES: Final = 16 << 20  # of a request
HEAD_BYTES: Final = 64 << 10
BODY_S: Final = 60.0  # for a request to arrive
QUIET_S: Final = 3.0  # between two signs of life on a stream
CLOSE_S: Final = 1.0  # for answers being written, when the gateway closes
ENDED_KEYS: Final = 4096  # remembered keys, so that late calls get the reason of their failure
OPENAIS, ANTHROPICS = Chat(), Messages()
DIALECTS: Final[tuple[Dialect, ...]] = (OPENAIS, Responses(), Completions(), ANTHROPICS)
ON_LOOPBACK: Final = GatewayConfig()
SOCKET: Final = "policy.sock"
COUNT: Final = "/v1/messages/count_tokens"
GONE: Final = 499  # for a request whose client has disconnected; nobody reads it

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Handle = Callable[[web.Request, Dialect, PlayCalls], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Access:
    """How an agent calls the policy."""

    base_url: str  # without /v1
    key: str
    socket: str  # path of an equivalent Unix socket; "": none


class NoKey(Permanent):
    """The key that external agents must show is not set."""


class NoAddress(Permanent):
    """The gateway can't listen at the configured address."""


class Gateway:
    """The server of one worker.

    Args:
        model: the policy's name in answers.
        place: where to listen.
        has_socket: whether to listen at a Unix socket, too, for agents behind walls without a network.
        remote: episodes of external agents; None: the run has none.
    """

    def __init__(
        self,
        model: str,
        place: GatewayConfig = ON_LOOPBACK,
        *,
        has_socket: bool = False,
        remote: RemoteEpisodes | None = None,
    ) -> None:
        self._model, self._place, self._has_socket = model, place, has_socket
        self.remote = remote
        self._folder: tuple[Path, int] | None = None  # of the socket, with its lock
        self._socket = ""
        self._sessions: dict[str, PlayCalls] = {}  # by key
        self._ended: deque[str] = deque(maxlen=ENDED_KEYS)
        self._runner: web.AppRunner | None = None
        self._url = ""

    async def start(self) -> None:
        """Listen. Raises NoAddress."""
        app = web.Application(client_max_size=MOST_BYTES)
        for dialect in DIALECTS:
            app.router.add_post(dialect.path, self._handler(dialect, _answered))
        app.router.add_post(COUNT, self._handler(ANTHROPICS, _counted))
        app.router.add_get("/v1/models", self._handler(None, self._models))
        app.router.add_get("/v1/models/{name:.+}", self._handler(None, self._one_model))
        if self.remote is not None:
            self.remote.add_routes(app)
        app.router.add_route("*", "/{rest:.*}", self._handler(None, _unknown))
        self._runner = web.AppRunner(
            app,
            access_log=None,
            max_line_size=HEAD_BYTES,
            max_field_size=HEAD_BYTES,
            keepalive_timeout=75.0,
            shutdown_timeout=CLOSE_S,
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._place.host, self._place.port or 0)
        try:
            await site.start()
        except OSError as error:
            raise NoAddress(
                f"agents.gateway: {self._place.host}:{self._place.port or 'any port'} can't be listened at: {error}; "
                "one worker of agents a machine where a port is set"
            ) from error
        host, port, *_ = self._runner.addresses[0]
        if ipaddress.ip_address(host).is_unspecified:  # all addresses: agents of this machine use its own
            host = "127.0.0.1"
        self._url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        if self._has_socket:
            await self._listen_at_socket(self._runner)

    async def _listen_at_socket(self, runner: web.AppRunner) -> None:
        """Listen at a socket open to any user who knows its path: a key is still required."""
        self._folder = own_folder()
        folder, _ = self._folder
        folder.chmod(0o711)
        await web.UnixSite(runner, folder / SOCKET).start()
        (folder / SOCKET).chmod(0o666)
        self._socket = str(folder / SOCKET)

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._folder is not None:
            folder, lock = self._folder
            remove_folder(folder)
            os.close(lock)
            self._folder = None

    @contextlib.contextmanager
    def opened(self, session: PlayCalls) -> Iterator[Access]:
        """Route calls with a new key to a session."""
        key = f"sk-millrace-{secrets.token_urlsafe(24)}"
        self._sessions[key] = session
        try:
            yield Access(self._url, key, self._socket)
        finally:
            del self._sessions[key]
            self._ended.append(key)

    def _session(self, request: web.Request) -> PlayCalls:
        """Return the session of a call. Raises CallRefused."""
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        key = bearer.strip() if scheme.lower() == "bearer" else ""
        key = key or request.headers.get("x-api-key") or request.headers.get("x-goog-api-key") or ""
        if (session := self._sessions.get(key)) is not None:
            return session
        if key in self._ended:
            raise CallRefused("this episode has ended", status=ENDED, code="episode_ended")
        reason = "this is no key of an episode" if key else "there is no key of an episode in the request"
        raise CallRefused(reason, status=UNKNOWN_KEY, code="invalid_api_key")

    def _handler(self, dialect: Dialect | None, handle: Handle) -> Handler:
        """Return the handler of a route, in the dialect of its path, or of the client where dialects share the path."""

        async def handled(request: web.Request) -> web.StreamResponse:
            spoken = dialect or (ANTHROPICS if "anthropic-version" in request.headers else OPENAIS)
            session = None
            try:
                session = self._session(request)
                return await handle(request, spoken, session)
            except CallRefused as refused:
                if session is not None:
                    session.refusal = str(refused)
                return _refusal(spoken, refused)
            except ConnectionError:
                return web.Response(status=GONE)

        return handled

    async def _models(self, request: web.Request, dialect: Dialect, session: PlayCalls) -> web.Response:
        del request, dialect, session
        body = {"object": "list", "data": [self._model_as_both_have_it()], "has_more": False}
        return _json({**body, "first_id": self._model, "last_id": self._model})

    async def _one_model(self, request: web.Request, dialect: Dialect, session: PlayCalls) -> web.Response:
        del request, dialect, session  # any name means the policy: agents shorten and rewrite it
        return _json(self._model_as_both_have_it())

    def _model_as_both_have_it(self) -> dict[str, Any]:
        return {
            "id": self._model,
            "object": "model",
            "created": 0,
            "owned_by": "millrace",
            "type": "model",
            "display_name": self._model,
            "created_at": "1970-01-01T00:00:00Z",
        }


async def _answered(request: web.Request, dialect: Dialect, session: PlayCalls) -> web.StreamResponse:
    """Answer a call of the policy. Raises CallRefused."""
    asked, digest = await _asked(request, dialect)
    is_retry = request.headers.get("x-stainless-retry-count", "0") not in ("", "0")
    call = session.call(asked, digest, is_retry=is_retry)
    if asked.is_streamed:
        return await _streamed(request, dialect, asked, call)
    await asyncio.wait({call.answer})
    return _json(dialect.answer(asked, _of(call)))


async def _counted(request: web.Request, dialect: Dialect, session: PlayCalls) -> web.StreamResponse:
    """Answer with the number of prompt tokens of a call. Raises CallRefused."""
    asked, _ = await _asked(request, dialect)
    return _json({"input_tokens": session.count(asked)})


async def _unknown(request: web.Request, dialect: Dialect, session: PlayCalls) -> web.StreamResponse:
    del dialect, session
    known = ", ".join(f"POST {path}" for path in [*(each.path for each in DIALECTS), COUNT])
    reason = f"there is no {request.method} {request.path[:200]}; there is {known}, GET /v1/models"
    raise CallRefused(reason, status=NOT_FOUND, code="unknown_url")


async def _asked(request: web.Request, dialect: Dialect) -> tuple[ApiRequest, bytes]:
    """Return the parsed request, and its digest. Raises CallRefused."""
    try:
        if (request.content_length or 0) > MOST_BYTES:
            raise web.HTTPRequestEntityTooLarge(MOST_BYTES, request.content_length or 0)
        async with asyncio.timeout(BODY_S):
            data = await request.read()
    except TimeoutError:
        raise CallRefused(f"the request did not arrive within {BODY_S:g} s", status=TOO_SLOW) from None
    except web.HTTPRequestEntityTooLarge:
        reason = f"a request has at most {MOST_BYTES >> 20} MB"
        raise CallRefused(reason, status=TOO_LARGE, code="request_too_large") from None
    except web.RequestPayloadError as error:
        raise CallRefused(f"the body can't be read: {error}") from error
    try:
        return dialect.read(_body(data)), hashlib.blake2b(
            request.path.encode() + data, digest_size=16
        ).digest()
    except RecursionError as error:
        raise CallRefused("the request is nested too deeply") from error


def _body(data: bytes) -> Mapping[str, Any]:
    """Return a request's JSON object. Raises CallRefused."""
    try:
        body = json.loads(data.decode())
        if b"\\ud" in data.lower():  # possibly half a surrogate pair: no message can carry that
            body = json.loads(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
    except RecursionError as error:
        raise CallRefused("the request is nested too deeply") from error
    except ValueError as error:
        raise CallRefused(f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise CallRefused("the body is no JSON object")
    return body


def _of(call: AgentCall) -> PolicyAnswer:
    """Return the result of a call. Raises CallRefused."""
    if call.answer.cancelled():
        raise CallRefused("this episode has ended", status=ENDED, code="episode_ended")
    return call.answer.result()


async def _streamed(
    request: web.Request, dialect: Dialect, asked: ApiRequest, call: AgentCall
) -> web.StreamResponse:
    """Send an answer as events. An immediate refusal has its own status; a later one is an event."""
    await asyncio.wait({call.answer}, timeout=QUIET_S)
    if call.answer.done():
        _of(call)
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
    )
    await response.prepare(request)
    signs = 0
    while not call.answer.done():
        await response.write(dialect.alive(asked, call.begun, signs).encode())
        signs += 1
        await asyncio.wait({call.answer}, timeout=QUIET_S)
    try:
        text = "".join(dialect.events(asked, _of(call), signs))
    except CallRefused as refused:
        text = dialect.error_event(refused)
    await response.write(text.encode())
    await response.write_eof()
    return response


def _json(body: Mapping[str, Any], status: int = 200, **headers: str) -> web.Response:
    return web.Response(
        body=json.dumps(body).encode(), status=status, content_type="application/json", headers=headers
    )


def _refusal(dialect: Dialect, refused: CallRefused) -> web.Response:
    headers = {} if refused.status == TOO_SLOW else {"x-should-retry": "false"}
    return _json(dialect.error(refused), refused.status, **headers)


def gateway_of(run: Run) -> Gateway:
    """Return the gateway of a run's worker. Raises NoKey where the key for external agents is not set."""
    place, remote = run.agents.gateway, None
    if run.has_agents_elsewhere:
        key = os.environ.get(place.key_variable or "", "")
        if place.key_variable and not key:
            raise NoKey(
                f"agents.gateway.key_variable={place.key_variable}: the variable is not set where the agents run"
            )
        remote = RemoteEpisodes(key)
    return Gateway(run.model.path, place, has_socket=run.has_agents_inside, remote=remote)
