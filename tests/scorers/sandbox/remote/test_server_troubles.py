"""What servers do that is no answer's doing: full queues, refusals of size; and connections across forks and ends."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from broker.messages import ScoreStatus
from config.scorer_kinds import CodeConfig
from config.scorers import ScorersConfig
from scorers.code.scorer import CodeTests
from scorers.sandbox import time_budget
from scorers.sandbox.program import Language, Program, SandboxUnavailable
from scorers.sandbox.remote.fusion import FusionSandbox
from scorers.sandbox.remote.probed_servers import ServerTrouble
from tests.support.sandbox import fusion_fakes as fake
from tests.support.sandbox.fusion_fakes import FakeServer, Reply, Request

pytestmark = pytest.mark.process


@pytest.fixture
def fusion(servers: list[FakeServer]) -> Iterator[FusionSandbox]:
    with closing(FusionSandbox([server.url for server in servers], patience_s=5.0)) as sandbox:
        yield sandbox


def ran(sandbox: FusionSandbox, stdin: bytes) -> bytes:
    with sandbox.prepare(Program(language=Language.PYTHON, source=b"print(input())")) as prepared:
        return prepared.run(stdin).stdout


CASES = [{"input": f"{number}\n", "output": f"{number}\n"} for number in range(4)]
ROW = {"type": "code", "answer": {"test_cases": CASES}}


def full(body: Reply) -> Callable[[Request], Reply | bytes]:
    """Tell every other call to come back."""
    turns = itertools.cycle([True, False])
    later = b"HTTP/1.1 503 Full\r\nRetry-After: 0.3\r\nContent-Length: 0\r\n\r\n"
    return lambda request: later if next(turns) else {**fake.quick(request), **body}


def test_time_in_a_servers_queue_is_not_the_programs(servers: list[FakeServer]) -> None:
    with closing(FusionSandbox([servers[0].url], patience_s=5.0)) as sandbox:
        sandbox.self_test()
        servers[0].behave = full({})
        scorer = CodeTests(CodeConfig(deadline_s=0.5, case_timeout_s=0.4), ScorersConfig(), sandbox)
        score = scorer.score("```python\nprint(input())\n```", ROW)
        assert score.value == 1.0, score.reason
        assert score.seconds > 0.5


def test_a_program_that_hangs_is_wrong_within_its_deadline_of_a_busy_server_too(
    servers: list[FakeServer],
) -> None:
    with closing(FusionSandbox([servers[0].url], patience_s=5.0)) as sandbox:
        sandbox.self_test()
        servers[0].behave = full(fake.run(status="TimeLimitExceeded", return_code=None, seconds=0.4))
        scorer = CodeTests(
            CodeConfig(deadline_s=0.5, case_timeout_s=0.4), ScorersConfig(credit="fraction"), sandbox
        )
        score = scorer.score("```python\nprint(input())\n```", ROW)
        assert score.value == 0.0
        assert len(servers[0].runs) <= 4  # half of them in vain


def test_a_sandbox_that_loses_too_much_time_is_no_zero(
    servers: list[FakeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_budget, "WAIT_S", 0.0)
    with closing(FusionSandbox([servers[0].url], patience_s=5.0)) as sandbox:
        sandbox.self_test()
        servers[0].behave = full({})
        scorer = CodeTests(CodeConfig(deadline_s=0.2, case_timeout_s=0.2), ScorersConfig(), sandbox)
        with pytest.raises(SandboxUnavailable, match="the sandbox is slow"):
            scorer.score("```python\nprint(input())\n```", ROW)


def test_a_program_too_large_for_every_server_is_unscorable_alone(
    fusion: FusionSandbox, servers: list[FakeServer]
) -> None:
    fusion.self_test()
    for server in servers:
        server.behave = lambda request: 413 if len(request["code"]) > 1000 else fake.quick(request)
    scorer = CodeTests(CodeConfig(), ScorersConfig(), fusion)
    score = scorer.score(f"```python\n#{'x' * 1000}\n```", ROW)
    assert (score.status, score.value) == (ScoreStatus.UNSCORABLE, None)
    assert "HTTP 413" in score.reason
    assert scorer.score("```python\nprint(input())\n```", ROW).value == 1.0


def test_a_fork_has_connections_of_its_own(fusion: FusionSandbox, servers: list[FakeServer]) -> None:
    """On the parent's one, the child's run would get the reply to the parent's."""
    assert ran(fusion, b"before") == b"before"
    parents = fusion._client()
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            said = ran(fusion, b"child")
            os.write(writer, said if fusion._client() is not parents else b"the parent's connection")
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == b"child"
    os.waitpid(pid, 0)
    assert ran(fusion, b"parent") == b"parent"


def test_a_probe_that_is_late_opens_nothing(fusion: FusionSandbox) -> None:
    fusion.self_test()
    fusion.close()
    with pytest.raises(ServerTrouble, match="closed"):
        fusion._probe(fusion._servers.all[0])
    assert fusion._http is None


def test_a_probe_that_was_about_to_send_when_the_sandbox_was_closed_ends_in_trouble(
    fusion: FusionSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    fusion.self_test()
    client = fusion._client()
    monkeypatch.setattr(fusion, "_client", lambda: client)
    fusion.close()
    (server, *_) = fusion._servers.all
    fusion._servers._run_probe(server)
    assert server.trouble == "the sandbox was closed"


@pytest.mark.parametrize("header", ["nan", "inf", "soon"])
def test_a_rest_of_no_length_that_makes_sense_is_a_short_one(servers: list[FakeServer], header: str) -> None:
    later = f"HTTP/1.1 503 Full\r\nRetry-After: {header}\r\nContent-Length: 0\r\n\r\n".encode()
    turns = itertools.chain([later], itertools.repeat(None))
    with closing(FusionSandbox([servers[0].url], patience_s=5.0)) as sandbox:
        sandbox.self_test()
        servers[0].behave = lambda request: next(turns) or fake.quick(request)
        assert ran(sandbox, b"7\n") == b"7\n"
