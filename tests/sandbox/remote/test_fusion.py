"""SandboxFusion's API as a client: several servers, each of which may fail in any way, and never a wrong verdict."""

from __future__ import annotations

import base64
import json
import platform
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from types import MappingProxyType

import pytest

from broker.messages import ScoreStatus
from config.scorer_kinds import CodeConfig
from config.scorers import ScorersConfig
from sandbox.limits import Limits
from sandbox.program import Ending, Language, Program, ProgramOutcome, SandboxMissing, SandboxUnavailable
from sandbox.remote.fusion import FusionSandbox
from sandbox.remote.outcome import WHOLE_OUTPUT_BYTES
from scorers.code.scorer import CodeTests
from tests.support.sandbox import fusion_fakes as fake
from tests.support.sandbox.fusion_fakes import FakeServer, Reply, Request, fake_servers

pytestmark = [pytest.mark.process, pytest.mark.prove(after=2)]

ECHO = b"print(input())"
SHORT = Limits(wall_s=0.4)


@pytest.fixture
def fusion(servers: list[FakeServer]) -> Iterator[FusionSandbox]:
    with closing(FusionSandbox([server.url for server in servers], patience_s=5.0, margin_s=0.4)) as sandbox:
        yield sandbox


@pytest.fixture
def met(fusion: FusionSandbox) -> FusionSandbox:
    """Return the same after its self-test: every server has passed its probe."""
    fusion.self_test()
    return fusion


@pytest.fixture(scope="module")
def running() -> Iterator[FusionSandbox]:
    """At one server, which really runs Python."""
    with fake_servers(1) as (server,):
        server.behave = fake.honest
        with closing(FusionSandbox([server.url])) as sandbox:
            yield sandbox


def all_behave(servers: list[FakeServer], behave: Callable[[Request], Reply | int]) -> None:
    for server in servers:
        server.behave = behave


def run(
    sandbox: FusionSandbox,
    source: bytes = ECHO,
    stdin: bytes = b"hello\n",
    limits: Limits = SHORT,
    *,
    language: Language = Language.PYTHON,
    files: Mapping[str, bytes] = MappingProxyType({}),
) -> ProgramOutcome:
    with sandbox.prepare(Program(language=language, source=source, files=files)) as prepared:
        assert prepared.failure is None
        return prepared.run(stdin, limits)


@pytest.mark.parametrize(
    ("source", "ending", "code", "stdout"),
    [
        ("print(input())", Ending.EXITED, 0, b"hello\n"),
        ("print(1); raise SystemExit(7)", Ending.EXITED, 7, b"1\n"),
        ("import sys; print(1, flush=True); sys.exit('no')", Ending.EXITED, 1, b"1\n"),
        ("import os; print(1, flush=True); os.abort()", Ending.SIGNALLED, -signal.SIGABRT, b"1\n"),
        ("print('so far', flush=True)\nwhile True: pass", Ending.TIME, None, b"so far\n"),
        ("print('x' * 3000)", Ending.OUTPUT, None, b"x" * 1000),
    ],
)
def test_how_a_program_ended_arrives_as_it_was(
    running: FusionSandbox, source: str, ending: Ending, code: int | None, stdout: bytes
) -> None:
    outcome = run(running, source.encode(), limits=Limits(wall_s=0.5, output_bytes=1000))
    assert (outcome.ending, outcome.exit_code, outcome.stdout) == (ending, code, stdout)


def test_a_request_says_all_that_the_seam_says(fusion: FusionSandbox, servers: list[FakeServer]) -> None:
    all_behave(servers, fake.honest)
    limits, files = Limits(wall_s=2.5, memory_bytes=300 << 20), {"near.py": b"WORD = 'here'"}
    assert run(fusion, b"import near; print(near.WORD)", b"in", limits, files=files).stdout == b"here\n"
    (request,) = [request for server in servers for request in server.runs]
    assert request == {
        "code": "import near; print(near.WORD)",
        "language": "python",
        "stdin": "in",
        "run_timeout": 2.5,
        "compile_timeout": 30.0,
        "memory_limit_MB": 300,
        "fetch_files": [],
        "files": {"near.py": base64.b64encode(b"WORD = 'here'").decode()},
    }


MISBEHAVIOURS: dict[str, Callable[[Request], Reply | bytes | int | None]] = {
    "500": lambda _: 500,
    "502": lambda _: 502,
    "404": lambda _: 404,
    "503 without end": lambda _: 503,
    "hangs": fake.hang,
    "closes": lambda _: None,
    "dies in the middle": lambda _: fake.http(b'{"status": "Success"', length=4000),
    "garbage": lambda _: b"\0\1\2 what?\r\n\r\n",
    "no JSON": lambda _: fake.http(b"<html>welcome to nginx</html>"),
    "JSON of something else": lambda _: fake.http(b'{"status": "ok"}'),
    "a list": lambda _: fake.http(b"[]"),
    "wrong types": lambda _: {**fake.run(), "run_result": {"status": "Finished", "return_code": "zero"}},
    "no result": fake.without_result,
    "SandboxError": fake.sandbox_error,
    "Error of the run": fake.error_in_run,
    "a contradiction": fake.contradiction,
    "no return code": fake.no_code,
}
LIES = {
    "always the same answer": fake.made_up,
    "everything succeeds": fake.all_succeed,
    "another's answer": fake.wrong_product,
}


@pytest.mark.parametrize("kind", MISBEHAVIOURS)
def test_servers_that_begin_to_misbehave_cost_no_call_until_none_is_left(
    servers: list[FakeServer], kind: str
) -> None:
    with closing(FusionSandbox([server.url for server in servers], patience_s=0.1, margin_s=0.2)) as fusion:
        fusion.self_test()
        servers[0].behave = servers[1].behave = MISBEHAVIOURS[kind]
        assert [run(fusion).stdout for _ in range(4)] == [b"hello\n"] * 4
        assert len(servers[2].runs) == 4
        servers[2].behave = MISBEHAVIOURS[kind]
        with pytest.raises(SandboxUnavailable) as caught:
            run(fusion)
    assert all(server.url in str(caught.value) for server in servers)


@pytest.mark.parametrize("kind", ["500", "hangs", "no JSON", *LIES])
def test_a_server_that_fails_its_probe_gets_no_program(
    fusion: FusionSandbox, servers: list[FakeServer], kind: str
) -> None:
    servers[1].behave = {**MISBEHAVIOURS, **LIES}[kind]
    fusion.self_test()
    assert [run(fusion).stdout for _ in range(4)] == [b"hello\n"] * 4
    assert [len(server.runs) for server in servers] == [2, 0, 2]
    assert servers[1].requests


def test_refused_connections_are_named_too_and_a_self_test_says_so_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    started = time.monotonic()
    with (
        closing(FusionSandbox([url], patience_s=300.0)) as sandbox,
        pytest.raises(SandboxUnavailable, match=f"{url}: no connection"),
    ):
        sandbox.self_test()
    assert time.monotonic() - started < 60


def test_a_busy_server_is_no_failure(servers: list[FakeServer]) -> None:
    turns = iter([503, 503])
    with closing(FusionSandbox([servers[0].url], patience_s=5.0)) as sandbox:
        sandbox.self_test()
        servers[0].behave = lambda request: next(turns, None) or fake.quick(request)
        assert run(sandbox).stdout == b"hello\n"
    assert len(servers[0].requests) == 4  # one probe, three calls: it was never in doubt


def killed(request: Request) -> Reply:
    return fake.quick(request) if fake.is_probe(request) else fake.run(return_code=-9)


def test_a_kill_that_another_server_does_not_see_was_not_the_programs_doing(
    met: FusionSandbox, servers: list[FakeServer]
) -> None:
    servers[0].behave = killed
    assert [run(met).stdout for _ in range(3)] == [b"hello\n"] * 3
    assert len(servers[0].runs) >= 1


@pytest.mark.parametrize(
    ("code", "ending"), [(-9, Ending.SIGNALLED), (137, Ending.EXITED), (-15, Ending.SIGNALLED)]
)
def test_a_kill_that_happens_twice_is_the_programs_doing(
    met: FusionSandbox, servers: list[FakeServer], code: int, ending: Ending
) -> None:
    all_behave(servers, lambda _: fake.run(return_code=code))
    outcome = run(met)
    assert (outcome.ending, outcome.exit_code) == (ending, code)
    assert sorted(len(server.runs) for server in servers) == [0, 1, 1]


def test_a_program_that_the_memory_limit_keeps_from_threads_runs_again_without_it(
    met: FusionSandbox, servers: list[FakeServer]
) -> None:
    refusal = fake.run(return_code=1, stderr="RuntimeError: can't start new thread")
    all_behave(
        servers, lambda request: fake.run(stdout="done") if request["memory_limit_MB"] < 0 else refusal
    )
    assert run(met).stdout == b"done"


def test_node_is_asked_for_without_a_memory_limit(met: FusionSandbox, servers: list[FakeServer]) -> None:
    told = "language", "memory_limit_MB"
    all_behave(servers, lambda request: fake.run(stdout=json.dumps([request[name] for name in told])))
    assert run(met, language=Language.JAVASCRIPT).stdout == b'["nodejs", -1]'


@pytest.mark.prove
def test_an_output_that_may_have_been_cut_is_over_this_backends_limit(running: FusionSandbox) -> None:
    assert running.max_output_bytes == WHOLE_OUTPUT_BYTES
    limits = Limits(wall_s=5.0)
    flood = run(running, b"print('x' * 300000)", limits=limits)
    assert (flood.ending, flood.exit_code, flood.stdout) == (Ending.OUTPUT, None, b"x" * WHOLE_OUTPUT_BYTES)
    assert flood.detail == "more than 131072 bytes of output"
    assert run(running, b"print('x' * 100000)", limits=limits).stdout == b"x" * 100000 + b"\n"
    noisy = run(running, b"import sys; print(1); sys.stderr.write('x' * 300000)", limits=limits)
    assert (noisy.ending, noisy.exit_code, noisy.stdout) == (Ending.EXITED, 0, b"1\n")
    stuck = b"import time; print('x' * 300000, flush=True); time.sleep(9)"
    assert run(running, stuck, limits=Limits(wall_s=0.3)).ending is Ending.OUTPUT


SIGNALS = ("SIGINT", "SIGTERM", "SIGALRM")
ATTACKS = {
    "takes all memory": "return bytearray(1 << 34)",
    "floods its output": "while True: print('x' * 9999)",
    "returns what is no text": "return '\\ud800'",
    "ends as a broken harness does": "os._exit(70)",
    "fills the memory of the process that checks": """
        for pipe in range(3, 20):
            try: os.write(pipe, (15 << 20).to_bytes(8, 'big') + b'[' + b'{},' * (5 << 20))
            except OSError: pass""",
    **{
        f"sends {name} to the process that checks": f"""
        end = time.monotonic() + 2
        if x == 1 and os.fork() == 0:
            os.setsid()
            while time.monotonic() < end: os.kill(parent, signal.{name}), time.sleep(0.0005)
        return -1 if x > 900 else 2 * x"""
        for name in SIGNALS
    },  # to that process alone, while it lives
}


@pytest.mark.prove(after=1)
@pytest.mark.parametrize("attack", ATTACKS)
def test_whatever_an_answer_does_it_is_scored(running: FusionSandbox, attack: str) -> None:
    config = CodeConfig(case_timeout_s=0.4, deadline_s=3.0, memory_mb=256)
    is_signal = attack.startswith("sends")  # many cases: it must hit between two of them
    scorer = CodeTests(config, ScorersConfig(credit="fraction" if is_signal else "all"), running)
    source = (
        f"import os, signal, time\nparent = os.getppid()\ndef double(x):\n        {ATTACKS[attack].strip()}"
    )
    tests = [f"assert double({number}) == {2 * number}" for number in range(1, 1001)]
    score = scorer.score(f"```python\n{source}\n```", {"type": "code", "answer": {"tests": tests}})
    assert score.status is ScoreStatus.SCORED, score.reason
    assert score.value is not None
    assert score.value <= (0.9 if is_signal else 0.0)


@pytest.mark.parametrize(
    ("compiler", "ending"),
    [
        ({"status": "Finished", "return_code": 1, "stderr": "main.cpp:1: error"}, Ending.EXITED),
        ({"status": "TimeLimitExceeded", "return_code": None, "stderr": ""}, Ending.TIME),
    ],
)
def test_a_program_that_does_not_compile_says_so_at_its_first_run(
    met: FusionSandbox, servers: list[FakeServer], compiler: dict[str, object], ending: Ending
) -> None:
    failed = {**fake.run(), "status": "Failed", "run_result": None, "compile_result": compiler}
    all_behave(servers, lambda _: failed)
    with met.prepare(Program(language=Language.CPP, source=b"int main( {}")) as prepared:
        outcomes = [prepared.run(b""), prepared.run(b"1")]
        assert prepared.failure is (outcomes[0] if ending is Ending.EXITED else None)
    told = (ending, compiler["stderr"])
    assert [(outcome.ending, outcome.stderr.decode()) for outcome in outcomes] == [told] * 2
    assert outcomes[0].detail.startswith("it does not compile: ")
    # A compiler that ran out of time may have been unlucky.
    assert sum(len(server.runs) for server in servers) == (1 if ending is Ending.EXITED else 2)


def test_a_program_that_compiles_costs_one_run_for_each_input(
    met: FusionSandbox, servers: list[FakeServer]
) -> None:
    all_behave(
        servers, lambda request: fake.run(stdout=request["stdin"] or "x" * 300_000)
    )  # floods without input
    with met.prepare(Program(language=Language.CPP, source=b"int main() {}")) as prepared:
        assert prepared.failure is None
        assert prepared.run(b"1").stdout == b"1"
    assert sum(len(server.runs) for server in servers) == 1


def test_what_every_server_refuses_is_missing_and_says_why(
    met: FusionSandbox, servers: list[FakeServer]
) -> None:
    all_behave(servers, lambda _: 422)
    with pytest.raises(SandboxMissing, match=r"HTTP 422: .*told to"):
        run(met, language=Language.JAVASCRIPT)


def test_what_the_api_can_not_carry_is_said(fusion: FusionSandbox) -> None:
    with pytest.raises(SandboxMissing, match="UTF-8"):
        run(fusion, stdin=b"\xff")


def test_a_run_is_given_as_long_as_the_api_allows(fusion: FusionSandbox, servers: list[FakeServer]) -> None:
    assert run(fusion, limits=Limits(wall_s=500)).stdout == b"hello\n"
    assert [request["run_timeout"] for server in servers for request in server.runs] == [120.0]


def test_a_source_that_is_no_text_is_run_all_the_same(running: FusionSandbox) -> None:
    assert run(running, b"print(1)  # \xed\xa0\x80").stdout == b"1\n"


def test_the_version_is_that_of_the_servers_python_and_never_fails(
    fusion: FusionSandbox, servers: list[FakeServer]
) -> None:
    all_behave(servers, fake.sandbox_error)
    assert [fusion.version, fusion.version] == ["python=unknown"] * 2
    assert [len(server.requests) for server in servers] == [1, 1, 1]  # asked once, not with every score
    all_behave(servers, fake.quick)
    fusion.self_test()
    assert fusion.version == "python=" + platform.python_version()
    servers[0].close()
    assert fusion.version == "python=" + platform.python_version()


def test_a_closed_sandbox_can_be_used_again(fusion: FusionSandbox) -> None:
    assert run(fusion).stdout == b"hello\n"
    fusion.close()
    assert run(fusion).stdout == b"hello\n"
