"""Which server takes a call: in turn, the least busy one, none in doubt; and what an outage of all of them costs."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import ExitStack

import pytest

from scorers.sandbox.program import SandboxMissing, SandboxUnavailable
from scorers.sandbox.remote.fusion import FusionSandbox
from scorers.sandbox.remote.probed_servers import ProbedServers, SandboxServer, ServerTrouble, normalised

pytestmark = pytest.mark.process

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


def test_a_server_that_passes_its_probe_and_fails_its_calls_is_asked_for_fewer_and_fewer() -> None:
    probe = Probe()
    servers = ProbedServers(URLS[:1], probe, patience_s=5.0)
    servers.probe_all()
    (server,) = servers.all
    waits = []
    for _ in range(4):
        servers.doubt(server, "hangs")
        waits.append(server.next_probe - time.monotonic())
        servers._run_probe(server)
        assert server.trouble is None
    assert waits == pytest.approx([0.0, 0.25, 0.5, 1.0], abs=0.1)
    servers.trust(server)
    servers.doubt(server, "hangs once more")
    assert server.next_probe <= time.monotonic()


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
