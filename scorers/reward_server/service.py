"""This module has the reward server's routes: HTTP on one side, the pending requests on the other.

In: `POST /reward`, `POST /reward/batch`, `GET /ping`, and `/openapi.json` with `/docs`. Out: scores. `/ping` answers
from memory. A client that reaches the port may have programs run in the scorers' sandbox. So the server listens on
loopback unless told otherwise, and may want a token.

Without a score the answer is one of these:
- 422 with a list of faults: what was sent can't be scored, now or later;
- 503 with `Retry-After`: what was sent can't be scored now. There is no worker or no Redis, too much waits, no time is
  left, a judge or a sandbox failed every try, or the server has a bug;
- 401 no token; 408 too slow; 413 too large; 415 not `application/json`; 431 a head that is too large.

II-Thought's client takes each of these statuses for a score of 0, and tries again only where the connection breaks. So
the server breaks the connection of such a client instead of a 408 or a 503 (`drop`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from config.logs import mask
from config.scorers import TaskConfig
from scorers.reward_server.bodies import Bodies, RequestQuestions
from scorers.reward_server.openapi import description, page
from scorers.reward_server.pending_requests import PendingRequests
from scorers.reward_server.questions import RewardQuestion, RewardResult, bug
from scorers.reward_server.wire import BatchRequest, Body, LegacyRequest, Ping, RewardRequest
from web.server import error, read_body, unless_gone, unprocessable

log = logging.getLogger(__name__)

BODY_BYTES: Final = 32 << 20  # the largest body
MOST_BYTES: Final = 512 << 20  # of the bodies of all requests under way
LARGE_BYTES: Final = 1 << 16  # a larger body is read in a thread; a smaller one takes milliseconds
RETRY_AFTER_S: Final = 5
MAINTAIN_EVERY_S: Final = 30.0

_OURS: Final = frozenset({408, 503})  # statuses that say nothing of the response that was sent
_Handler = Callable[[Request], Awaitable[Response]]


class RewardServer:
    """The reward server's application has these routes and their limits.

    Args:
        pending: gets scores for questions.
        tasks: the tasks that are served.
        within_s: seconds within which a request gets its answer, or a 503.
        token: the token that clients have to show; None: none.
        drop: breaks the connection of a client of II-Thought's, given its address; None: clients are others.
        maintain: called every MAINTAIN_EVERY_S, in a thread.
    """

    def __init__(
        self,
        pending: PendingRequests,
        tasks: Mapping[str, TaskConfig],
        *,
        within_s: float,
        token: str | None = None,
        drop: Callable[[tuple[str, int]], None] | None = None,
        maintain: Callable[[], None] = lambda: None,
    ) -> None:
        self._pending = pending
        self._bodies = Bodies(tasks, has_prompts=drop is not None)
        self._aside = ThreadPoolExecutor(1, thread_name_prefix="reader")
        self._bytes = 0  # of the bodies of requests under way
        self._within_s = within_s
        self._token = None if token is None else f"bearer {token}".encode()
        self._drop = drop
        self._maintain = maintain
        self._document = description(has_token=token is not None)
        self._page = page(self._document)
        self.app = Starlette(
            lifespan=self._lifespan,
            exception_handlers={HTTPException: _as_json},
            routes=[
                Route("/ping", self._ping),
                Route("/reward", self._guarded(self._reward), methods=["POST"]),
                Route("/reward/batch", self._guarded(self._batch), methods=["POST"]),
                Route("/openapi.json", self._guarded(self._openapi)),
                Route("/docs", self._guarded(self._docs)),
            ],
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        self._pending.open()
        maintaining = asyncio.create_task(self._keep_maintaining())
        try:
            yield
        finally:
            maintaining.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await maintaining
            await self._pending.close()
            self._aside.shutdown(wait=False, cancel_futures=True)

    async def _keep_maintaining(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self._maintain)
            except Exception as failure:  # noqa: BLE001 - Redis is away, or a bug that must not end a server
                log.warning("not_maintained error=%s", mask(repr(failure)))
            await asyncio.sleep(MAINTAIN_EVERY_S)

    async def _ping(self, _request: Request) -> Response:
        return JSONResponse(Ping(message=f"{self._pending.under_way} requests are under way").model_dump())

    async def _openapi(self, _request: Request) -> Response:
        return JSONResponse(self._document)

    async def _docs(self, _request: Request) -> Response:
        return HTMLResponse(self._page)

    async def _reward(self, request: Request) -> Response:
        return await self._answer(request, is_batch=False)

    async def _batch(self, request: Request) -> Response:
        return await self._answer(request, is_batch=True)

    async def _answer(self, request: Request, *, is_batch: bool) -> Response:
        """Answer with scores, unless something is wrong with the request or its client goes away."""
        body = await read_body(request, BODY_BYTES)
        if isinstance(body, Response):
            return body
        self._bytes += len(body)
        try:
            if self._bytes > MOST_BYTES:
                return _not_now(f"more than {MOST_BYTES >> 20} MiB of requests are under way")
            started = time.monotonic()
            async with asyncio.timeout(self._within_s):
                asked = await self._read(body, is_batch=is_batch)
            if isinstance(asked, Response):
                return asked
            left_s = self._within_s - (time.monotonic() - started)
            return await unless_gone(request, self._reply(asked, max(0.0, left_s)))
        except TimeoutError:
            return _not_now(f"not read within {self._within_s:g} s: other large requests were before it")
        finally:
            self._bytes -= len(body)

    async def _read(self, body: bytes, *, is_batch: bool) -> RequestQuestions | Response:
        read = partial(self._bodies.read, body, is_batch=is_batch)
        if len(body) <= LARGE_BYTES:
            return read()
        return await asyncio.get_running_loop().run_in_executor(self._aside, read)

    async def _reply(self, asked: RequestQuestions, within_s: float) -> Response:
        async def result(question: RewardQuestion | RewardResult) -> RewardResult:
            return (
                question
                if isinstance(question, RewardResult)
                else await self._pending.ask(question, within_s)
            )

        return _REPLIES[asked.kind](await asyncio.gather(*map(result, asked.questions)))

    def _guarded(self, handler: _Handler) -> _Handler:
        """Return the handler for clients that show the token; a bug in it is a 503."""

        async def guarded(request: Request) -> Response:
            kind, _, shown = request.headers.get("authorization", "").partition(" ")
            # Blanks alone are stripped: another space of Latin-1 may be one of the token's own bytes.
            given = f"{kind.lower()} {shown.strip(' ')}".encode("latin-1")
            if self._token is not None and not hmac.compare_digest(given, self._token):
                return error(
                    401,
                    "this server wants a token: Authorization: Bearer TOKEN",
                    **{"www-authenticate": "Bearer", "connection": "close"},
                )
            try:
                answer = await handler(request)
            except Exception as failure:
                log.exception("bug path=%s", request.url.path)
                answer = _not_now(bug(failure).reason)
            if answer.status_code in _OURS and self._drop is not None and request.client is not None:
                log.info("dropped client=%s status=%d", request.client.host, answer.status_code)
                self._drop((request.client.host, request.client.port))
            return answer

        return guarded


def _score(results: Sequence[RewardResult]) -> Response:
    return _refusal(results, [("verification_info",)]) or _as_reply(results[0].as_json())


def _scores(results: Sequence[RewardResult]) -> Response:
    """Answer with all scores or with none: a list of numbers has no word for one that is missing."""
    refusal = _refusal(results, [("ground_truths", place) for place in range(len(results))])
    return refusal or _as_reply({"scores": [result.value for result in results]})


def _results(results: Sequence[RewardResult]) -> Response:
    if all(result.status == "unavailable" for result in results):
        return _not_now(results[0].reason)
    return _as_reply({"results": [result.as_json() for result in results]})


_REPLIES: Final[Mapping[type[Body], Callable[[Sequence[RewardResult]], Response]]] = {
    RewardRequest: _score,
    LegacyRequest: _scores,
    BatchRequest: _results,
}


def _refusal(results: Sequence[RewardResult], places: Sequence[tuple[str | int, ...]]) -> Response | None:
    """Return the answer where a score is missing, None where none is. A fault of what was sent comes first."""
    details = [
        {"type": "unscorable", "loc": ["body", *place], "msg": result.reason}
        for result, place in zip(results, places, strict=True)
        if result.status == "unscorable"
    ]
    if details:
        return unprocessable(details)
    reasons = [result.reason for result in results if result.status == "unavailable"]
    return _not_now(reasons[0]) if reasons else None


def _not_now(reason: str) -> Response:
    return error(503, reason, **{"retry-after": str(RETRY_AFTER_S)})


def _as_reply(tree: Any) -> Response:
    """Return JSON in ASCII, which every reader takes, whatever text a reason quotes."""
    return Response(json.dumps(tree), media_type="application/json")


async def _as_json(_request: Request, failure: Exception) -> Response:
    """Answer a 404 or a 405 in the shape of all other refusals."""
    if not isinstance(failure, HTTPException):
        raise failure
    return JSONResponse({"detail": failure.detail}, status_code=failure.status_code, headers=failure.headers)
