"""The gateway: a server in each agents' worker, where agents call the policy by an address and a key of their episode.

In: requests of OpenAI's and Anthropic's APIs. Out: their answers, whole or as events, when the turn is recorded. A key
dies with its play of the episode; a call that comes later is refused by name. Nothing of a request is logged. Answers
that take long keep their connection open with comments. Runs in the worker's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from agents.gateway.dialects.chat import Chat
from agents.gateway.dialects.dialect import (
    ENDED,
    NOT_FOUND,
    TOO_LARGE,
    UNKNOWN_KEY,
    Answer,
    Asked,
    Dialect,
    Refused,
)
from agents.gateway.session import Session

MOST_BYTES: Final = 16 << 20  # of a request
HEAD_BYTES: Final = 64 << 10
BODY_S: Final = 60.0  # for a request to arrive in
QUIET_S: Final = 3.0  # between two signs of life on a stream
ENDED_KEYS: Final = 4096  # that are remembered, so that late calls are told why they fail
DIALECTS: Final[Mapping[str, Dialect]] = {"/v1/chat/completions": Chat()}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Access:
    """What an agent is given: it calls the policy with these."""

    base_url: str  # without /v1
    key: str


class Gateway:
    """The server of one worker.

    Args:
        model: the name that it gives the policy.
        host: the address that it listens at.
    """

    def __init__(self, model: str, host: str = "127.0.0.1") -> None:
        self._model, self._host = model, host
        self._sessions: dict[str, Session] = {}  # by key
        self._ended: deque[str] = deque(maxlen=ENDED_KEYS)
        self._runner: web.AppRunner | None = None
        self._url = ""

    async def start(self) -> None:
        """Listen. Raises OSError where the address can't be had."""
        app = web.Application(client_max_size=MOST_BYTES)
        for path, dialect in DIALECTS.items():
            app.router.add_post(path, self._handler(dialect))
        app.router.add_get("/v1/models", self._models)
        app.router.add_route("*", "/{rest:.*}", _unknown)
        self._runner = web.AppRunner(
            app, access_log=None, max_line_size=HEAD_BYTES, max_field_size=HEAD_BYTES, keepalive_timeout=75.0
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, 0)
        await site.start()
        host, port, *_ = self._runner.addresses[0]
        self._url = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    async def close(self) -> None:
        """Listen no more."""
        if self._runner is not None:
            await self._runner.cleanup()

    @contextlib.contextmanager
    def opened(self, session: Session) -> Iterator[Access]:
        """Let calls with a new key reach a session."""
        key = f"sk-millrace-{secrets.token_urlsafe(24)}"
        self._sessions[key] = session
        try:
            yield Access(self._url, key)
        finally:
            del self._sessions[key]
            self._ended.append(key)

    def _session(self, request: web.Request) -> Session:
        """Return whose call it is. Raises Refused."""
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        key = bearer.strip() if scheme.lower() == "bearer" else ""
        key = key or request.headers.get("x-api-key") or request.headers.get("x-goog-api-key") or ""
        if (session := self._sessions.get(key)) is not None:
            return session
        if key in self._ended:
            raise Refused("this episode has ended", status=ENDED, code="episode_ended")
        raise Refused("this is no key of an episode", status=UNKNOWN_KEY, code="invalid_api_key")

    def _handler(self, dialect: Dialect) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                session = self._session(request)
                body, digest = await _body(request)
                asked = dialect.read(body)
                is_retry = request.headers.get("x-stainless-retry-count", "0") not in ("", "0")
                answering = asyncio.ensure_future(session.call(asked, digest, is_retry=is_retry))
                if asked.is_streamed:
                    return await _streamed(request, dialect, asked, answering)
                return _json(dialect.answer(asked, await answering))
            except Refused as refused:
                return _refusal(dialect, refused)

        return handle

    async def _models(self, request: web.Request) -> web.Response:
        try:
            self._session(request)
        except Refused as refused:
            return _refusal(Chat(), refused)
        model = {"id": self._model, "object": "model", "created": 0, "owned_by": "millrace"}
        return _json({"object": "list", "data": [model]})


async def _unknown(request: web.Request) -> web.Response:
    known = ", ".join(f"POST {path}" for path in DIALECTS)
    reason = f"there is no {request.method} {request.path[:200]}; there is {known}, GET /v1/models"
    return _refusal(Chat(), Refused(reason, status=NOT_FOUND, code="unknown_url"))


async def _body(request: web.Request) -> tuple[Mapping[str, Any], bytes]:
    """Return a request's JSON object and a digest of its bytes. Raises Refused."""
    try:
        async with asyncio.timeout(BODY_S):
            data = await request.read()
    except TimeoutError:
        raise Refused(f"the request did not arrive within {BODY_S:g} s") from None
    except web.HTTPRequestEntityTooLarge:
        raise Refused(
            f"a request has at most {MOST_BYTES >> 20} MB", status=TOO_LARGE, code="request_too_large"
        ) from None
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Refused(f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise Refused("the body is no JSON object")
    return body, hashlib.blake2b(data, digest_size=16).digest()


async def _streamed(
    request: web.Request, dialect: Dialect, asked: Asked, answering: asyncio.Future[Answer]
) -> web.StreamResponse:
    """Send an answer as events. What is refused at once is refused by its status; later, by an event."""
    await asyncio.wait({answering}, timeout=QUIET_S)
    if answering.done() and (error := answering.exception()) is not None:
        raise error
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
    )
    await response.prepare(request)
    while not answering.done():
        await response.write(b": the policy is at it\n\n")
        await asyncio.wait({answering}, timeout=QUIET_S)
    try:
        text = "".join(dialect.events(asked, answering.result()))
    except Refused as refused:
        text = dialect.error_event(refused)
    await response.write(text.encode())
    await response.write_eof()
    return response


def _json(body: Mapping[str, Any], status: int = 200, **headers: str) -> web.Response:
    return web.Response(
        body=json.dumps(body).encode(), status=status, content_type="application/json", headers=headers
    )


def _refusal(dialect: Dialect, refused: Refused) -> web.Response:
    return _json(dialect.error(refused), refused.status, **{"x-should-retry": "false"})
