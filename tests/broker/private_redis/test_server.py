"""The private Redis: a real server each time."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from broker.errors import WrongBroker
from broker.private_redis import addresses
from broker.private_redis import server as embedded
from config.loading import build_run
from config.run import Run
from tests.support.paths import ROOT
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.prove(after=2)]

MakeRun = Callable[..., Run]


@pytest.fixture(autouse=True)
def own_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("REDIS_URL", raising=False)


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    def make(name: str = "demo", runs_dir: str = "runs", maxmemory_mb: int = 0) -> Run:
        return build_run(
            [
                (
                    "a test",
                    {
                        "name": name,
                        "runs_dir": str(tmp_path / runs_dir),
                        "model": {"path": "tiny"},
                        "data": {"train": {"type": "procedural"}},
                        "broker": {"maxmemory_mb": maxmemory_mb},
                    },
                )
            ]
        )

    return make


def password(url: str) -> str:
    found = re.search(r":([^:@]+)@", url)
    assert found
    return found[1]


def test_a_folder_that_cannot_be_made_is_named(make_run: MakeRun, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(WrongBroker, match=r"runs/demo/redis: Not a directory; .*runs_dir="):
        embedded.start(make_run())


def test_it_keeps_what_a_queue_needs_and_is_seen_on_loopback_only(make_run: MakeRun) -> None:
    server = embedded.start(make_run(maxmemory_mb=64))
    try:
        with redis.Redis.from_url(server.url, decode_responses=True) as client:
            wanted = {
                "appendonly": "yes",
                "appendfsync": "everysec",
                "maxmemory-policy": "noeviction",
                "maxmemory": str(64 * 2**20),
                "bind": "127.0.0.1",
            }
            assert {key: client.config_get(key)[key] for key in wanted} == wanted
    finally:
        server.stop()


def test_a_wrong_password_is_refused(make_run: MakeRun) -> None:
    server = embedded.start(make_run())
    try:
        for url in (server.url.replace(password(server.url), "guess"), re.sub(r"//.*@", "//", server.url)):
            with redis.Redis.from_url(url) as client, pytest.raises(redis.AuthenticationError):
                client.ping()
    finally:
        server.stop()


def test_the_password_is_in_one_file_of_mode_600_and_nowhere_else(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run()
    server = embedded.start(run)
    try:
        secret = password(server.url).encode()
        file = addresses.file_of(run.folder)
        assert secret in file.read_bytes()
        assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)] == [0o600, 0o700]
        others = [path for path in tmp_path.rglob("*") if path.is_file() and path != file]
        assert run.folder / "logs" / "redis.log" in others
        assert not [path for path in others if secret in path.read_bytes()]
        told = [path for path in Path("/proc").glob("[0-9]*/cmdline") if secret in read_if_there(path)]
        assert not told
    finally:
        server.stop()


def read_if_there(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_data_and_address_survive_a_stop_and_a_start(make_run: MakeRun) -> None:
    urls = []
    for expected in (None, b"here"):
        server = embedded.start(make_run())
        try:
            with redis.Redis.from_url(server.url) as client:
                assert client.get("key") == expected
                client.set("key", "here")
        finally:
            server.stop()
        urls.append(server.url)
        with redis.Redis.from_url(server.url) as client, pytest.raises(redis.ConnectionError):
            client.ping()
    assert urls[0] == urls[1]


def test_data_survive_a_kill_of_the_server(make_run: MakeRun) -> None:
    server = embedded.start(make_run())
    with redis.Redis.from_url(server.url) as client:
        client.set("key", "here")
        time.sleep(1.5)  # everysec
        pid = client.info("server")["process_id"]
    os.kill(pid, signal.SIGKILL)
    server.stop()
    again = embedded.start(make_run())
    try:
        with redis.Redis.from_url(again.url) as client:
            assert client.get("key") == b"here"
    finally:
        again.stop()


def test_a_taken_port_is_left_for_another(make_run: MakeRun) -> None:
    first = embedded.start(make_run())
    first.stop()
    port = int(first.url.rpartition(":")[2].split("/")[0])
    with socket.socket() as foreign:
        foreign.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        foreign.bind(("127.0.0.1", port))
        foreign.listen()
        second = embedded.start(make_run())
        second.stop()
    assert f":{port}/" not in second.url
    assert password(first.url) != password(
        second.url
    )  # whoever has the port now may have been told the old one


def test_a_second_start_finds_the_first_one_and_does_not_end_it(make_run: MakeRun) -> None:
    first = embedded.start(make_run())
    try:
        second = embedded.start(make_run())
        assert (second.url, second.is_ours) == (first.url, False)
        second.stop()
        assert not second.has_ended
    finally:
        first.stop()
    assert first.has_ended


STARTER = """
import sys, time
from pathlib import Path
from broker.private_redis import addresses, server as embedded
from config.loading import build_run
server = embedded.start(build_run([("a test", {"name": "demo", "runs_dir": sys.argv[1], "model": {"path": "tiny"},
                                               "data": {"train": {"type": "procedural"}}})]))
print(server.url, flush=True)
time.sleep(60)
"""


def test_a_killed_starter_leaves_no_server_and_loses_nothing(make_run: MakeRun) -> None:
    run = make_run()
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(run.runs_dir)], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert starter.stdout is not None
    url = starter.stdout.readline().decode().strip()
    with redis.Redis.from_url(url) as client:
        client.set("key", "here")  # killed within the second that everysec may forget: SIGTERM flushes
        pid = client.info("server")["process_id"]
    starter.kill()
    starter.wait()
    wait_until(lambda: b"redis-server" not in read_if_there(Path(f"/proc/{pid}/cmdline")), within_s=10)
    with embedded.ensure_readable("demo", run.runs_dir) as url, redis.Redis.from_url(url) as client:
        assert client.get("key") == b"here"


def test_a_stopped_server_is_started_to_be_read_and_stopped_after(make_run: MakeRun) -> None:
    run = make_run()
    embedded.start(run).stop()
    with embedded.ensure_readable("demo", run.runs_dir) as url, redis.Redis.from_url(url) as client:
        assert client.ping()
    with redis.Redis.from_url(url) as client, pytest.raises(redis.ConnectionError):
        client.ping()


def test_an_external_redis_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REDIS_URL", "rediss://user:word@far:6380/1")
    with embedded.ensure_readable("demo", tmp_path) as url:
        assert url == "rediss://user:word@far:6380/1"


def test_an_unknown_run_is_named_with_what_to_do(tmp_path: Path) -> None:
    assert embedded.find("nobody", tmp_path) is None
    with pytest.raises(WrongBroker, match=r"nobody.*REDIS_URL"), embedded.ensure_readable("nobody", tmp_path):
        pass


def test_a_run_is_found_in_its_folder_then_anywhere_and_never_by_guessing(
    make_run: MakeRun, tmp_path: Path
) -> None:
    urls = {}
    for runs_dir, name in (("a", "one"), ("a", "one-2"), ("a", "two"), ("b", "two")):
        server = embedded.start(make_run(name, runs_dir))
        server.stop()
        urls[runs_dir, name] = server.url
    assert embedded.find("two", tmp_path / "b") == urls["b", "two"]
    assert embedded.find("one", tmp_path / "elsewhere") == urls["a", "one"]
    with pytest.raises(WrongBroker, match=f"(?s){tmp_path}/a.*{tmp_path}/b"):
        embedded.find("two", tmp_path / "elsewhere")


def test_a_server_that_does_not_start_says_what_its_log_says(make_run: MakeRun) -> None:
    run = make_run()
    (run.folder / "redis" / "appendonly.aof").mkdir(parents=True)
    (run.folder / "redis" / "appendonlydir").touch()
    with pytest.raises(WrongBroker, match=r"(?s)did not start.*(append|Is a directory|regular file)"):
        embedded.start(run)


@pytest.mark.parametrize(("version", "is_taken"), [("7.0.15", True), ("6.2.0", True), ("6.0.16", False)])
def test_the_systems_own_server_is_taken_if_it_is_recent_enough(
    version: str, is_taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "redis-server"
    program.write_text(
        f"#!/bin/sh\necho 'Redis server v={version} sha=00000000:0 malloc=jemalloc-5.2.1 bits=64'\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert (embedded.executable() == program) is is_taken
    assert embedded.executable().is_file()
