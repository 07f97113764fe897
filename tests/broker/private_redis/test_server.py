"""The private Redis: a real server each time."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from broker.errors import WrongBroker
from broker.private_redis import addresses
from broker.private_redis import server as embedded
from broker.private_redis.server import Embedded
from tests.support.paths import ROOT
from tests.support.tiny_private_run import tiny_run
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.prove(after=2)]

Start = Callable[..., Embedded]


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("REDIS_URL", raising=False)
    return tmp_path / "runs"


@pytest.fixture
def start(runs: Path) -> Iterator[Start]:
    """Starts a run's server, which is stopped after the test."""
    started = []

    def start(name: str = "demo", runs_dir: Path = runs, maxmemory_mb: int = 0) -> Embedded:
        started.append(embedded.start(tiny_run(runs_dir, name, maxmemory_mb)))
        return started[-1]

    yield start
    for server in started:
        server.stop()


def password(url: str) -> str:
    found = re.search(r":([^:@]+)@", url)
    assert found
    return found[1]


def client_of(url: str) -> Any:
    return redis.Redis.from_url(url, decode_responses=True)


def assert_is_away(url: str) -> None:
    with client_of(url) as client, pytest.raises(redis.ConnectionError):
        client.ping()


def read_if_there(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_folder_that_cannot_be_made_is_named(runs: Path, start: Start) -> None:
    runs.write_text("a file")
    with pytest.raises(WrongBroker, match=r"runs/demo/redis: Not a directory; .*runs_dir="):
        start()


def test_it_keeps_what_a_queue_needs_is_seen_on_loopback_only_and_asks_for_its_password(start: Start) -> None:
    server = start(maxmemory_mb=64)
    settings = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"}
    wanted = settings | {"maxmemory": str(64 * 2**20), "bind": "127.0.0.1"}
    with client_of(server.url) as client:
        assert {key: client.config_get(key)[key] for key in wanted} == wanted
    for url in (server.url.replace(password(server.url), "guess"), re.sub(r"//.*@", "//", server.url)):
        with client_of(url) as client, pytest.raises(redis.AuthenticationError):
            client.ping()


def test_the_password_is_in_one_private_file_and_nowhere_else(
    start: Start, runs: Path, tmp_path: Path
) -> None:
    secret = password(start().url).encode()
    file = addresses.file_of(runs / "demo")
    assert secret in file.read_bytes()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)] == [0o600, 0o700]
    others = [path for path in tmp_path.rglob("*") if path.is_file() and path != file]
    assert runs / "demo" / "logs" / "redis.log" in others
    others += Path("/proc").glob("[0-9]*/cmdline")
    assert not [path for path in others if secret in read_if_there(path)]


def test_data_and_address_survive_a_stop_and_a_start(start: Start) -> None:
    urls = []
    for expected in (None, "here"):
        server = start()
        with client_of(server.url) as client:
            assert client.get("key") == expected
            client.set("key", "here")
        server.stop()
        urls.append(server.url)
        assert_is_away(server.url)
    assert urls[0] == urls[1]


def test_data_survive_a_kill_of_the_server(start: Start) -> None:
    server = start()
    with client_of(server.url) as client:
        client.set("key", "here")
        os.kill(client.info("server")["process_id"], signal.SIGKILL)
    server.stop()
    with client_of(start().url) as client:
        assert client.get("key") == "here"


def test_a_taken_port_is_left_for_another(start: Start) -> None:
    (first := start()).stop()
    port = int(first.url.rpartition(":")[2].split("/")[0])
    with socket.socket() as foreign:
        foreign.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        foreign.bind(("127.0.0.1", port))
        foreign.listen()
        second = start()
    assert f":{port}/" not in second.url
    assert password(first.url) != password(second.url), (
        "whoever has the port now may have been told the old one"
    )


def test_a_second_start_finds_the_first_one_and_does_not_end_it(start: Start) -> None:
    first, second = start(), start()
    assert (second.url, second.is_ours) == (first.url, False)
    second.stop()
    assert not second.has_ended
    first.stop()
    assert first.has_ended


STARTER = """
import sys, time
from pathlib import Path
from broker.private_redis import server as embedded
from tests.support.tiny_private_run import tiny_run
print(embedded.start(tiny_run(Path(sys.argv[1]))).url, flush=True)
time.sleep(60)
"""


def test_a_killed_starter_leaves_no_server_and_loses_nothing(runs: Path) -> None:
    words = [sys.executable, "-c", STARTER, str(runs)]
    starter = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE)
    assert starter.stdout is not None
    with client_of(starter.stdout.readline().decode().strip()) as client:
        client.set("key", "here")  # killed within the second that everysec may forget: SIGTERM flushes
        pid = client.info("server")["process_id"]
    starter.kill()
    starter.wait()
    wait_until(lambda: b"redis-server" not in read_if_there(Path(f"/proc/{pid}/cmdline")), within_s=10)
    with embedded.ensure_readable("demo", runs) as url, client_of(url) as client:
        assert client.get("key") == "here"
    assert_is_away(url)


def test_an_external_redis_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REDIS_URL", "rediss://user:word@far:6380/1")
    with embedded.ensure_readable("demo", tmp_path) as url:
        assert url == "rediss://user:word@far:6380/1"


def test_an_unknown_run_is_named_with_what_to_do(tmp_path: Path) -> None:
    assert embedded.find("nobody", tmp_path) is None
    with pytest.raises(WrongBroker, match=r"nobody.*REDIS_URL"), embedded.ensure_readable("nobody", tmp_path):
        pass


def test_a_run_is_found_in_its_folder_then_anywhere_and_never_guessed(start: Start, tmp_path: Path) -> None:
    urls = {}
    for place in ("a/one", "a/one-2", "a/two", "b/two"):
        runs_dir, _, name = place.partition("/")
        (server := start(name, tmp_path / runs_dir)).stop()
        urls[place] = server.url
    assert embedded.find("two", tmp_path / "b") == urls["b/two"]
    assert embedded.find("one", tmp_path / "elsewhere") == urls["a/one"]
    with pytest.raises(WrongBroker, match=f"(?s){tmp_path}/a.*{tmp_path}/b"):
        embedded.find("two", tmp_path / "elsewhere")


def test_a_server_that_does_not_start_says_what_its_log_says(start: Start, runs: Path) -> None:
    (runs / "demo" / "redis" / "appendonly.aof").mkdir(parents=True)
    (runs / "demo" / "redis" / "appendonlydir").touch()
    with pytest.raises(WrongBroker, match=r"(?s)did not start.*(append|Is a directory|regular file)"):
        start()


@pytest.mark.parametrize(("version", "is_taken"), [("7.0.15", True), ("6.2.0", True), ("6.0.16", False)])
def test_the_systems_own_server_is_taken_if_it_is_recent_enough(
    version: str, is_taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "redis-server"
    said = f"Redis server v={version} sha=00000000:0 malloc=jemalloc-5.2.1 bits=64"
    program.write_text(f"#!/bin/sh\necho '{said}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert (embedded.executable() == program) is is_taken
    assert embedded.executable().is_file()
