"""SandboxFusion's `POST /submit` for stdin/stdout cases, as II-Thought's verifier calls it.

In: a completion and its cases. Out: SandboxFusion's `EvalResult`. Called by `scorers.sandbox.server.service`. The code
is found by the scorers' own rules; outputs are compared by SandboxFusion's (case and outer white
space do not count, floats within 1e-5). A run that the machinery fails raises `RunnerLost`: no result, and no failed
case.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Json

from scorers.code.answer import tags_of
from scorers.code.output import difference
from scorers.sandbox.server.runner_queue import RunnerLost
from scorers.sandbox.wire import LANGUAGES, RunReply, RunRequest, Seconds
from scorers.text.extract import last_block, response_part

MAX_CASES = 1000
DEFAULT_S = {"python": 20.0, "cpp": 10.0, "nodejs": 20.0}  # SandboxFusion's


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Input(_Part):
    stdin: str


class _Output(_Part):
    stdout: str


class Case(_Part):
    """One case of stdin and stdout; files as input or output are not offered."""

    input: _Input
    output: _Output


Cases = Annotated[list[Case], Field(min_length=1, max_length=MAX_CASES)]


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
