"""Between a request to the sandbox's service and a run: the queue, one process's work, and II-Thought's `/submit`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from pydantic import ValidationError

from sandbox.choice import best_local
from sandbox.local.sandbox import LocalSandbox
from sandbox.program import Ending, Language, ProgramOutcome, SandboxMissing, SandboxUnavailable
from sandbox.server import runner_queue
from sandbox.server.runner_process import run_request
from sandbox.server.runner_queue import WAITING_PER_RUNNER, RunnerLost, _Runner
from sandbox.server.service import Served, Service
from sandbox.wire import RunReply, RunRequest
from scorers.code.submit import SubmitRequest, evaluate
from tests.support.sandbox.unable import Unable

pytestmark = [pytest.mark.process, pytest.mark.prove(after=2)]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[LocalSandbox]:
    try:
        sandbox = best_local()
    except SandboxMissing as error:
        pytest.skip(str(error))
    yield sandbox
    sandbox.close()


def submission(completion: str, cases: list[tuple[str, str]], **config: object) -> dict[str, object]:
    """As II-Thought's verifier makes it."""
    test = [{"input": {"stdin": stdin}, "output": {"stdout": stdout}} for stdin, stdout in cases]
    data = {"id": 7, "content": "", "test": test}
    config = {"language": "python", "dataset_type": "CommonOJDataset", "provided_data": data, **config}
    return {"dataset": "code", "id": 7, "completion": completion, "config": config}


ADD = "Here it is:\n```python\nprint(sum(map(int, open(0).read().split())))\n```\n"
CASES = [("3 5", "8"), ("-10 4", "-6"), ("1 1", "3")]


def judged(sandbox: LocalSandbox, body: dict[str, object]) -> dict[str, Any]:
    """Return what `/submit` answers, each run in the sandbox here."""

    async def run(asked: RunRequest) -> bytes:
        return run_request(sandbox, asked).model_dump_json().encode()

    return asyncio.run(evaluate(SubmitRequest.model_validate(body), run))


@pytest.mark.parametrize(
    ("completion", "cases", "passed", "accepted"),
    [
        (ADD, CASES, [True, True, False], False),
        (ADD, CASES[2:] + CASES[:2], [False], False),  # it stops at the first that fails
        (ADD, CASES[:2], [True, True], True),
        ("print(8)", CASES[:1], [], False),  # no block
        ("```py\nprint('YES 0.1000001 ')\n```", [("", "yes 0.1\n"), ("", "yes 0.2")], [True, False], False),
        ("```python\nprint(8); raise SystemExit(1)\n```", CASES[:1], [False], False),
        ("```python\nwhile True: pass\n```", CASES[:1], [False], False),
    ],
)
def test_a_submission_is_judged_case_by_case(
    sandbox: LocalSandbox, completion: str, cases: list[tuple[str, str]], passed: list[bool], accepted: bool
) -> None:
    # What ends has the time that a busy machine takes for it.
    run_timeout = 0.5 if "while True" in completion else 20.0
    result = judged(sandbox, submission(completion, cases, run_timeout=run_timeout))
    assert (result["id"], result["accepted"]) == (7, accepted)
    assert [test["passed"] for test in result["tests"]] == passed
    assert result["extracted_type"] == ("fenced" if passed else "empty")


def test_all_cases_of_a_submission_are_run_where_that_is_asked(sandbox: LocalSandbox) -> None:
    body = submission(ADD, CASES[2:] + CASES[:2], extra={"run_all_cases": True})
    result = judged(sandbox, body)
    assert [test["passed"] for test in result["tests"]] == [False, True, True]


@pytest.mark.parametrize(
    ("config", "where"),
    [
        ({"dataset_type": "HumanEvalDataset"}, "dataset_type"),
        ({"language": "go"}, "language"),
        ({"provided_data": {"test": []}}, "provided_data"),
        ({"custom_extract_logic": "import os"}, "custom_extract_logic"),
    ],
)
def test_a_submission_of_another_kind_is_refused_by_name(config: dict[str, object], where: str) -> None:
    with pytest.raises(ValidationError) as caught:
        SubmitRequest.model_validate(submission(ADD, CASES, **config))
    assert all(where in error["loc"] for error in caught.value.errors())


def test_a_run_that_the_machinery_fails_is_no_failed_case() -> None:
    async def broken(_: RunRequest) -> bytes:
        return RunReply(status="SandboxError", message="no space left on device").model_dump_json().encode()

    with pytest.raises(RunnerLost, match="no space left"):
        asyncio.run(evaluate(SubmitRequest.model_validate(submission(ADD, CASES)), broken))


REPLY = RunReply(status="Success").model_dump_json().encode()


class Gated(_Runner):
    gate: asyncio.Event

    async def ask(self, request: bytes) -> bytes:
        await self.gate.wait()
        return REPLY


async def no_more_than_fit() -> list[httpx.Response]:
    """As many calls as one process and its queue take, and one more, all at once: the answers."""
    Gated.gate = asyncio.Event()
    service = Service(Served(name="unsafe", version="", languages=frozenset({Language.PYTHON})), workers=1)
    transport = httpx.ASGITransport(service.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://sandbox") as client:

        async def call() -> httpx.Response:
            return await client.post("/run_code", json={"code": "", "language": "python"})

        taken = [asyncio.create_task(call()) for _ in range(1 + WAITING_PER_RUNNER)]
        health: dict[str, int] = {}
        while (health.get("running"), health.get("waiting")) != (1, WAITING_PER_RUNNER):
            await asyncio.sleep(0)
            health = (await client.get("/health")).json()
        refused = await call()
        Gated.gate.set()
        return [refused, *await asyncio.gather(*taken)]


def test_the_service_takes_no_more_than_it_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_queue, "_Runner", Gated)
    refused, *taken = asyncio.run(asyncio.wait_for(no_more_than_fit(), 10))
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert [(answer.status_code, answer.json()["status"]) for answer in taken] == [(200, "Success")] * 5


def test_what_the_machinery_can_not_do_costs_one_request_and_not_the_process() -> None:
    cases: list[Exception] = [
        SandboxUnavailable("no room"),
        OSError(28, "no room"),
        ValueError("no room for a file of that name"),
    ]
    for error in cases:
        reply = run_request(Unable(error), RunRequest(code="", language="python"))
        assert (reply.status, reply.run_result, reply.compile_result) == ("SandboxError", None, None)
        assert "no room" in (reply.message or "")


@pytest.mark.parametrize(("is_crowded", "status"), [(False, "Success"), (True, "SandboxError")])
def test_a_run_that_others_left_without_processes_is_none(is_crowded: bool, status: str) -> None:
    ended: dict[str, Any] = {"ending": Ending.EXITED, "exit_code": 0, "detail": "exit code 0"}
    outcome = ProgramOutcome(stdout=b"", stderr=b"", seconds=0.1, is_crowded=is_crowded, **ended)
    prepared = SimpleNamespace(failure=None, run=lambda *_: outcome)
    sandbox = cast("Any", SimpleNamespace(prepare=lambda _: nullcontext(prepared)))
    assert run_request(sandbox, RunRequest(code="", language="python")).status == status
