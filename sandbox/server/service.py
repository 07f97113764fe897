"""This machine's sandbox as a service that speaks SandboxFusion's HTTP API: `python -m scorers sandbox`.

In: `POST /run_code`. Out: how the program ended. Also `GET /v1/ping`, and `GET /health`: whether its walls held when
last tried. What is made of runs is another route, of whoever starts the service: `scorers.code.submit` judges cases.
Whoever reaches the port may have programs run, so it listens on loopback unless told otherwise.

What it answers when something is wrong: a request that can't be read 422, naming the field; one that is not
`application/json`, as any web page could have a browser send, 415; too large 413; no room 503 with `Retry-After`; its
own machinery 200 with `SandboxError`, as SandboxFusion does.
`/run_jupyter` is not offered (501). A client that goes away ends its program.

Not as SandboxFusion: `files` stand beside the program, read-only, and its working folder is another one, empty; what a
run writes is gone with it, so `fetch_files` is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.program import Language, Sandbox
from sandbox.remote.probe import Probe
from sandbox.server.runner_queue import Full, RunnerLost, RunnerQueue
from sandbox.wire import LANGUAGE_NAMES, RunReply, RunRequest
from web.server import error, faults, read_body, unless_gone, unprocessable

log = logging.getLogger(__name__)

BODY_BYTES: Final = 32 << 20
OVERHEAD_S: Final = 4.0  # of the machinery, beyond the program's own limits
PROBE_EVERY_S: Final = 30.0
RETRY_AFTER_S: Final = 1
NOT_OFFERED: Final = "this sandbox runs programs (POST /run_code, /submit); it does not run notebooks"

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The sandbox behind the service."""

    name: str  # as `scorers.sandbox` of the config has it
    version: str
    languages: frozenset[Language]

    @classmethod
    def of(cls, sandbox: Sandbox) -> Served:
        """Return what a sandbox says of itself."""
        return cls(name=sandbox.name, version=sandbox.version, languages=sandbox.languages)


class Service:
    """The application: its routes and what they share."""

    def __init__(
        self, served: Served, workers: int, routes: Callable[[Service], Sequence[Route]] = lambda _service: ()
    ) -> None:
        """Start nothing yet.

        Args:
            served: the sandbox.
            workers: programs that run at once.
            routes: those of the caller's own, which may `run` programs.
        """
        self._served = served
        self._languages = sorted(LANGUAGE_NAMES[language] for language in served.languages)
        self._runners = RunnerQueue(served.name, workers)
        self._trouble: str | None = "not probed yet"
        self._probed = 0.0  # monotonic
        self.app = Starlette(
            lifespan=self._lifespan,
            routes=[
                Route("/run_code", self._run_code, methods=["POST"]),
                Route("/v1/ping", self._ping),
                Route("/health", self._health),
                Route("/run_jupyter", self._not_offered, methods=["POST"]),
                *routes(self),
            ],
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        watch = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
            await self._runners.close()

    async def _run_code(self, request: Request) -> Response:
        asked = await read(request, RunRequest)
        if isinstance(asked, Response):
            return asked
        return self.lacks(asked.language, "language") or await unless_gone(request, self._reply(asked))

    async def _reply(self, asked: RunRequest) -> Response:
        try:
            return Response(await self.run(asked), media_type="application/json")
        except Full:
            return no_room()
        except RunnerLost as error:
            log.warning("run_failed language=%s reason=%s", asked.language, error)
            reply = RunReply(status="SandboxError", message=str(error))
            return Response(reply.model_dump_json(), media_type="application/json")

    def lacks(self, name: str, *where: str) -> Response | None:
        """Refuse a language that this machine lacks, named at `where` in a body; None: it is there."""
        if name in self._languages:
            return None
        message = f"no {name} on this machine; there are {', '.join(self._languages)}"
        return unprocessable([{"type": "missing", "loc": ["body", *where], "msg": message}])

    async def run(self, asked: RunRequest) -> bytes:
        """Run a program; returns a `RunReply` as JSON. Raises Full and RunnerLost."""
        compile_s = asked.compile_timeout if asked.language == "cpp" else 0.0
        return await self._runners.run(
            asked.model_dump_json().encode(), asked.run_timeout + compile_s + OVERHEAD_S
        )

    async def _watch(self) -> None:
        """Try the walls now and then; what they answered last is the service's health."""
        while True:
            probe = Probe()
            try:
                self._trouble = probe.trouble(RunReply.model_validate_json(await self.run(probe.request)))
            except Full:  # its own clients keep it busy: what it said last still holds
                pass
            except RunnerLost as error:
                self._trouble = str(error)
            else:
                self._probed = time.monotonic()
            if self._trouble is not None:
                log.warning("sandbox_not_ready reason=%s", self._trouble)
            await asyncio.sleep(PROBE_EVERY_S)

    async def _health(self, _request: Request) -> Response:
        served = self._served
        ready = self._trouble is None
        return JSONResponse(
            {
                "status": "ready" if ready else "not ready",
                "reason": self._trouble,
                "sandbox": served.name,
                "version": served.version,
                "languages": self._languages,
                "workers": self._runners.size,
                "running": self._runners.running,
                "waiting": self._runners.waiting,
                "probed_s_ago": round(time.monotonic() - self._probed, 1) if self._probed else None,
            },
            status_code=200 if ready else 503,
        )

    async def _ping(self, _request: Request) -> Response:
        return JSONResponse("pong")

    async def _not_offered(self, _request: Request) -> Response:
        return error(501, NOT_OFFERED)


async def read(request: Request, model: type[_Model]) -> _Model | Response:
    """Return the request's body, checked, or the response that says what is wrong with it."""
    body = await read_body(request, BODY_BYTES)
    if isinstance(body, Response):
        return body
    try:
        return model.model_validate_json(body)
    except ValidationError as found:
        return faults(found)


def no_room() -> Response:
    """Answer a request for which there is no room now."""
    return error(503, "no room: try again, or another server", **{"retry-after": str(RETRY_AFTER_S)})
