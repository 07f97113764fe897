"""What stands between a request to the sandbox's service and a run: the queue, and one process's work."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from scorers.sandbox.program import Ending, Language, Outcome, SandboxUnavailable
from scorers.sandbox.server import runner_queue
from scorers.sandbox.server.runner_process import run_request
from scorers.sandbox.server.runner_queue import WAITING_PER_RUNNER, _Runner
from scorers.sandbox.server.service import Served, Service
from scorers.sandbox.wire import RunReply, RunRequest
from tests.support.sandbox.unable import Unable

pytestmark = pytest.mark.process

REPLY = RunReply(status="Success").model_dump_json().encode()


class Gated(_Runner):
    """It answers when its gate is opened."""

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


@pytest.mark.parametrize(
    "error",
    [SandboxUnavailable("no room"), OSError(28, "no room"), ValueError("no room for a file of that name")],
)
def test_what_the_machinery_can_not_do_costs_one_request_and_not_the_process(error: Exception) -> None:
    reply = run_request(Unable(error), RunRequest(code="", language="python"))
    assert (reply.status, reply.run_result, reply.compile_result) == ("SandboxError", None, None)
    assert "no room" in (reply.message or "")


@pytest.mark.parametrize(("is_crowded", "status"), [(False, "Success"), (True, "SandboxError")])
def test_a_run_that_others_left_without_processes_is_none(is_crowded: bool, status: str) -> None:
    ended: dict[str, Any] = {"ending": Ending.EXITED, "exit_code": 0, "detail": "exit code 0"}
    outcome = Outcome(stdout=b"", stderr=b"", seconds=0.1, is_crowded=is_crowded, **ended)
    prepared = SimpleNamespace(failure=None, run=lambda *_: outcome)
    sandbox = cast("Any", SimpleNamespace(prepare=lambda _: nullcontext(prepared)))
    assert run_request(sandbox, RunRequest(code="", language="python")).status == status
