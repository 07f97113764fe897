r"""The reward server beside itself without hanging answers, and beside a server that calls math-verify inline.

32 clients ask for the scores of answers with a fraction or a surd against references that are equal or not; 2 in 100
of the answers are towers of powers on which sympy hangs, no two alike. The server has its defaults and eight workers
for mathematics. Counted are honest answers that get the score
they deserve, and every one has to: one that gets another, or none within its client's 30 seconds, ends the benchmark.
The inline server is FastAPI with five workers (`benchmarks.rigs.inline_server`), on the same cores; of its honest
answers only those count that are right in time. `/ping` is asked every 50 ms meanwhile, and of an idle server.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import redis

from benchmarks.comparison import Comparison
from benchmarks.results import ROOT
from benchmarks.rigs.clients.reward_clients import KnownResponse, Load, load
from broker import processes
from broker.keys import Keys
from broker.monitoring.snapshot import snapshot
from broker.private_redis import addresses, server
from scorers.reward_server.api_run import api_run

CLIENTS = 32
START_S = 120.0
HALF, INLINE = "limit: half of its own without hanging answers", "FastAPI, math-verify inline, 5 workers"
LATER_MS = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured."""

    seconds: float = 60.0
    workers: int = 8
    hanging: float = 0.02  # share of the answers


FULL, SMOKE = Size(), Size(seconds=1.0, workers=1, hanging=0.0)


def measure(size: Size) -> list[Comparison]:
    """Make the rows of the table."""
    with reward_server(size.workers) as port:
        idle = load(port, questions(0.0), clients=0, seconds=min(size.seconds, 20.0))
        honest = load(port, questions(0.0), clients=CLIENTS, seconds=size.seconds)
        mixed = load(port, questions(size.hanging), clients=CLIENTS, seconds=size.seconds)
    for found in (honest, mixed):
        if found.wrong:
            raise RuntimeError(f"{len(found.wrong)} honest answers without their score: {found.wrong[:3]}")
    with inline_server() as port:
        inline = load(port, questions(size.hanging), clients=CLIENTS, seconds=size.seconds)
    return rows(size, idle, honest, mixed, inline)


def rows(size: Size, idle: Load, honest: Load, mixed: Load, inline: Load) -> list[Comparison]:
    """Write what was measured as rows of the table."""
    asked = f"{CLIENTS} clients, {size.hanging:.0%} hanging answers, {size.workers} workers"
    return [
        Comparison(what=asked, unit="right/s", ours=[mixed.goodput], beside=HALF, other=[honest.goodput / 2]),
        Comparison(
            what=asked, unit="right/s", ours=[mixed.goodput], beside=INLINE, other=[inline.goodput or 0.01]
        ),
        Comparison(
            what=f"/ping beside {CLIENTS} clients, 99th percentile",
            unit="ms",
            ours=[mixed.ping_p99_ms],
            beside=f"limit: {LATER_MS:g} ms above the idle server's",
            other=[idle.ping_p99_ms + LATER_MS],
            less_is_better=True,
        ),
    ]


def questions(hanging: float) -> Iterator[KnownResponse]:
    """Yield answers without end, every second honest one right; the same ones each time."""
    chance = random.Random(0)  # noqa: S311 - no secret
    number = 0
    while True:
        number += 1
        if chance.random() < hanging:
            tower = "^{".join(str(chance.randrange(7, 99)) for _ in range(chance.randrange(3, 6)))
            yield KnownResponse(
                f"Try {number}. \\boxed{{{tower}{'}' * tower.count('{')}}}", "5", 0.0, hangs=True
            )
            continue
        top, bottom = chance.randrange(1, 10_000), chance.choice((2, 4, 5, 8))
        value = top + (number % 2)
        answer = (
            f"\\frac{{{value}}}{{{bottom}}}" if number % 4 < 2 else f"\\frac{{{2 * value}}}{{{2 * bottom}}}"
        )
        yield KnownResponse(f"Try {number}. \\boxed{{{answer}}}", str(top / bottom), float(value == top))


@contextlib.contextmanager
def reward_server(workers: int) -> Iterator[int]:
    """Start a server with a pool of so many workers that have passed their self-test; yield its port."""
    with tempfile.TemporaryDirectory() as folder:
        run = api_run([], Path(folder))
        redis_server = server.start(run)
        env = {**os.environ, "REDIS_URL": redis_server.url}
        port = _free_port()
        with Path(folder, "log").open("wb") as log, redis.Redis.from_url(redis_server.url) as client:
            started = [
                processes.spawn([sys.executable, "-m", "scorers", *words], env=env, stderr=log, cwd=ROOT)
                for words in (
                    ["serve", "--port", str(port)],
                    ["--run", "api", "--queues", "math", "--workers", str(workers)],
                )
            ]
            try:
                _wait(lambda: _listens(port) and _ready(client) == workers, started)
                yield port
            finally:
                for process in started:
                    processes.stop(process, 20.0)
                redis_server.stop()
                addresses.discard(run.folder)


@contextlib.contextmanager
def inline_server() -> Iterator[int]:
    """Start the server that judges in its own workers; yield its port."""
    port = _free_port()
    process = processes.spawn(
        [sys.executable, "-m", "benchmarks.rigs.inline_server", str(port)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        death_signal=signal.SIGTERM,
    )
    try:
        _wait(lambda: _listens(port), [process])
        time.sleep(5.0)  # all five
        yield port
    finally:
        processes.stop(process, 5.0)


def _ready(client: redis.Redis) -> int:
    return sum(
        process.role == "scorer" and process.state.startswith("waiting for rollouts")
        for process in snapshot(client, Keys("api").name).processes
    )


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(condition: Callable[[], bool], started: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + START_S
    while not condition():
        if time.monotonic() > deadline or any(map(processes.has_ended, started)):
            raise RuntimeError("a server did not start")
        time.sleep(0.1)
