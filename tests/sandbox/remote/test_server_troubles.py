"""Which server takes a call, and what servers do that is no answer's doing: full queues, refusals, outages, forks."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from broker.messages import ScoreStatus
from config.scorer_kinds import CodeConfig
from config.scorers import ScorersConfig
from sandbox import time_budget
from sandbox.program import Language, Program, SandboxMissing, SandboxUnavailable
from sandbox.remote.fusion import FusionSandbox
from sandbox.remote.probed_servers import ProbedServers, SandboxServer, normalised
from scorers.code.scorer import CodeTests
from tests.support.sandbox import fusion_fakes as fake
from tests.support.sandbox.fusion_fakes import FakeServer, Reply, Request
from web.client import ServerTrouble

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


ECHO = "```python\nprint(input())\n```"


@contextmanager
def busy(
    server: FakeServer, *, rest: str = "0.3", calls: Iterable[bool] = (), **body: Any
) -> Iterator[FusionSandbox]:
    """A sandbox at one server, which tells every other call, or those of `calls`, to come back."""
    turns = iter(calls) if calls else itertools.cycle([True, False])
    later = f"HTTP/1.1 503 Full\r\nRetry-After: {rest}\r\nContent-Length: 0\r\n\r\n".encode()

    def behave(request: Request) -> Reply | bytes:
        return later if next(turns, False) else {**fake.quick(request), **body}

    with closing(FusionSandbox([server.url], patience_s=5.0)) as sandbox:
        sandbox.self_test()
        server.behave = behave
        yield sandbox


def hasty(
    sandbox: FusionSandbox, deadline_s: float, case_timeout_s: float, credit: str | None = None
) -> CodeTests:
    config = CodeConfig(deadline_s=deadline_s, case_timeout_s=case_timeout_s)
    return CodeTests(config, ScorersConfig.model_validate({"credit": credit}), sandbox)


def test_time_in_a_servers_queue_is_not_the_programs(servers: list[FakeServer]) -> None:
    with busy(servers[0]) as sandbox:
        score = hasty(sandbox, 0.5, 0.4).score(ECHO, ROW)
    assert score.value == 1.0, score.reason
    assert score.seconds > 0.5


def test_a_program_that_hangs_is_wrong_within_its_deadline_of_a_busy_server_too(
    servers: list[FakeServer],
) -> None:
    with busy(servers[0], **fake.run(status="TimeLimitExceeded", return_code=None, seconds=0.4)) as sandbox:
        assert hasty(sandbox, 0.5, 0.4, "fraction").score(ECHO, ROW).value == 0.0
    assert len(servers[0].runs) <= 4  # half of them in vain


def test_a_sandbox_that_loses_too_much_time_is_no_zero(
    servers: list[FakeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_budget, "WAIT_S", 0.0)
    with busy(servers[0]) as sandbox, pytest.raises(SandboxUnavailable, match="the sandbox is slow"):
        hasty(sandbox, 0.2, 0.2).score(ECHO, ROW)


@pytest.mark.parametrize("rest", ["nan", "inf", "soon"])
def test_a_rest_of_no_length_that_makes_sense_is_a_short_one(servers: list[FakeServer], rest: str) -> None:
    with busy(servers[0], rest=rest, calls=[True]) as sandbox:
        assert ran(sandbox, b"7\n") == b"7\n"


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
    assert scorer.score(ECHO, ROW).value == 1.0


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
    assert server.trouble == "the client was closed"


URLS = ("http://one:8080", "http://two:8080", "http://three:8080")


class Probe:
    """Finds trouble at the servers that are told to have some."""

    def __init__(self, *troubled: str) -> None:
        self.troubled = set(troubled)
        self.asked: Counter[str] = Counter()
        self.mends = threading.Event()  # set: the next failing probe is the last that fails

    def __call__(self, server: SandboxServer) -> None:
        self.asked[server.url] += 1
        if server.url in self.troubled:
            if self.mends.is_set():
                self.troubled.clear()
            raise ServerTrouble("no space left on device")


def lent(servers: ProbedServers) -> str:
    with servers.lend() as server:
        return server.url


def test_calls_are_spread_over_the_servers() -> None:
    servers = ProbedServers(URLS, Probe(), patience_s=5.0)
    servers.probe_all()
    assert Counter(lent(servers) for _ in range(9)) == dict.fromkeys(URLS, 3)


def test_a_slow_server_gets_fewer_calls() -> None:
    servers = ProbedServers(URLS, Probe(), patience_s=5.0)
    servers.probe_all()
    with ExitStack() as slow:
        busy = slow.enter_context(servers.lend())
        assert busy.url not in [lent(servers) for _ in range(6)]
    assert busy.url in [lent(servers) for _ in range(3)]


def test_a_server_in_doubt_gets_no_call_until_it_passes_its_probe_again() -> None:
    probe = Probe()
    servers = ProbedServers(URLS[:1], probe, patience_s=5.0)
    with servers.lend() as server:
        probe.troubled.add(server.url)
        servers.doubt(server, "no space left on device")
    assert probe.asked[server.url] == 1
    probe.mends.set()
    assert lent(servers) == server.url  # waits for it, as long as its patience lasts
    assert probe.asked[server.url] == 3  # at once, and once more after a wait


def test_a_server_that_passes_its_probe_and_fails_its_calls_is_asked_for_fewer_and_fewer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped = SimpleNamespace(monotonic=lambda: 1000.0)
    monkeypatch.setattr("sandbox.remote.probed_servers.time", stopped)
    probe = Probe()
    servers = ProbedServers(URLS[:1], probe, patience_s=5.0)
    servers.probe_all()
    (server,) = servers.all
    waits = []
    for _ in range(4):
        servers.doubt(server, "hangs")
        waits.append(server.next_probe - 1000.0)
        servers._run_probe(server)
        assert server.trouble is None
    assert waits == [0.0, 0.25, 0.5, 1.0]
    servers.trust(server)
    servers.doubt(server, "hangs once more")
    assert server.next_probe == 1000.0


def test_while_all_are_away_one_call_waits_and_the_next_ones_do_not() -> None:
    probe = Probe(*URLS)
    servers = ProbedServers(URLS, probe, patience_s=0.6)
    waits = []
    for _ in range(5):
        started = time.monotonic()
        said = f"no sandbox server is left: {URLS[0]}: no space"
        with pytest.raises(SandboxUnavailable, match=said) as caught:
            lent(servers)
        waits.append(time.monotonic() - started)
        assert all(url in str(caught.value) for url in URLS)
    assert waits[0] >= 0.6
    assert sum(waits[1:]) < 0.6
    probe.troubled.clear()
    servers.probe_all()
    assert lent(servers) in URLS  # it is over as soon as one is back


def test_servers_are_met_once() -> None:
    probe = Probe(URLS[1])
    servers = ProbedServers(URLS, probe, patience_s=0.0)
    for _ in range(2):
        servers.meet()
    assert probe.asked == dict.fromkeys(URLS, 1)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("sandbox", "http://sandbox:8080"),
        ("10.0.0.1", "http://10.0.0.1:8080"),
        ("sandbox:81", "http://sandbox:81"),
        ("[::1]", "http://[::1]:8080"),
        ("[::1]:81", "http://[::1]:81"),
        (" http://sandbox:8080/ ", "http://sandbox:8080"),
        ("https://sandbox.example/fusion/", "https://sandbox.example/fusion"),
    ],
)
def test_an_address_is_a_url_or_a_host(address: str, url: str) -> None:
    assert normalised(address) == url


@pytest.mark.parametrize(
    "address", ["", "ftp://x", "http://", "h:port", "h:99999", "a b", "http://user:planted@h:1"]
)
def test_an_address_that_is_none_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(SandboxMissing, match="sandbox server") as caught:
        FusionSandbox([address])
    assert "planted" not in str(caught.value)


def test_no_address_at_all_is_refused() -> None:
    with pytest.raises(SandboxMissing, match="SANDBOX_FUSION_SERVERS"):
        FusionSandbox([])
