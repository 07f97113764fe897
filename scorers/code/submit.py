"""SandboxFusion's `POST /submit` for stdin/stdout cases, as II-Thought's verifier calls it.

In: a completion and its cases. Out: SandboxFusion's `EvalResult`. A route of the service of `sandbox.server.service`,
which runs the programs. The code is found by the scorers' own rules; outputs are compared by SandboxFusion's (case and
outer white space do not count, floats within 1e-5). A run that the machinery fails is 503: no result, and no failed
case.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Json
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.server.runner_queue import Full, RunnerLost
from sandbox.server.service import Service, no_room, read
from sandbox.wire import LANGUAGES, RunReply, RunRequest, Seconds
from scorers.text.extract import last_block, response_part
from verdicts.code.answer import tags_of
from verdicts.code.output import difference
from web.server import error, unless_gone

log = logging.getLogger(__name__)

MAX_CASES = 1000
DEFAULT_S = {"python": 20.0, "cpp": 10.0, "nodejs": 20.0}  # SandboxFusion's


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Input(_Part):
    stdin: str


class _Output(_Part):
    stdout: str


class SubmitCase(_Part):
    """One case of stdin and stdout; files as input or output are not offered."""

    input: _Input
    output: _Output


Cases = Annotated[list[SubmitCase], Field(min_length=1, max_length=MAX_CASES)]


class _Data(_Part):
    test: Cases | Json[Cases]


class _Config(_Part):
    dataset_type: Literal["CommonOJDataset"]
    language: Literal["python", "cpp", "nodejs"]
    provided_data: _Data
    compile_timeout: Seconds | None = None
    run_timeout: Seconds | None = None
    custom_extract_logic: None = None  # a program of the caller's; never run here
    extra: dict[str, Any] = {}


class SubmitRequest(_Part):
    """A completion, and the cases that its code has to pass."""

    id: int | str
    completion: str
    config: _Config


def submit_routes(service: Service) -> list[Route]:
    """Return the route of this module."""

    async def submit(request: Request) -> Response:
        asked = await read(request, SubmitRequest)
        if isinstance(asked, Response):
            return asked
        lacks = service.lacks(asked.config.language, "config", "language")
        return lacks or await unless_gone(request, _evaluation(asked, service))

    return [Route("/submit", submit, methods=["POST"])]


async def _evaluation(asked: SubmitRequest, service: Service) -> Response:
    try:
        return JSONResponse(await evaluate(asked, service.run))
    except Full:
        return no_room()
    except RunnerLost as lost:
        log.warning("submit_failed language=%s reason=%s", asked.config.language, lost)
        return error(503, f"the sandbox failed, not the program: {lost}")


async def evaluate(asked: SubmitRequest, run: Callable[[RunRequest], Awaitable[bytes]]) -> dict[str, Any]:
    """Run the cases in order, until one fails unless `extra.run_all_cases` is true. Raises what `run` does."""
    config = asked.config
    code = last_block(response_part(asked.completion) or "", tags_of(LANGUAGES[config.language]))
    tests: list[dict[str, Any]] = []
    for case in config.provided_data.test if code is not None else []:
        reply = RunReply.model_validate_json(
            await run(
                RunRequest(
                    code=code or "",
                    language=config.language,
                    stdin=case.input.stdin,
                    compile_timeout=config.compile_timeout or 10.0,
                    run_timeout=config.run_timeout or DEFAULT_S[config.language],
                )
            )
        )
        if reply.status == "SandboxError":
            raise RunnerLost(reply.message or "SandboxError")
        passed = (
            reply.status == "Success"
            and reply.run_result is not None
            and difference(reply.run_result.stdout or "", case.output.stdout, compatible=True) is None
        )
        tests.append({"passed": passed, "exec_info": reply.model_dump(), "test_info": case.model_dump()})
        if not passed and config.extra.get("run_all_cases") is not True:
            break
    return {
        "id": asked.id,
        "accepted": bool(tests) and all(test["passed"] for test in tests),
        "extracted_code": code or "",
        "full_code": None,
        "test_code": None,
        "tests": tests,
        "extracted_type": "empty" if code is None else "fenced",
        "extra": {},
    }
