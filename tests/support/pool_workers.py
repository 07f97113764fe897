"""Worker processes and a dispatcher at work in a thread, for the tests of the pool."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from broker.processes import stop
from scorers.pool.dispatcher import Dispatcher
from tests.support.station import SLEEPER, Scorers, Station


@contextmanager
def workers(station: Station, folder: Path, count: int = 1) -> Iterator[list[Scorers]]:
    """Real worker processes, without the pool that would start them again."""
    started = [station.start(folder, "--part", "worker") for _ in range(count)]
    try:
        yield started
    finally:
        for scorers in started:
            stop(scorers.process, 0)


def delivered(station: Station, *ids: int, **how: Any) -> list[str]:
    """Roll groups out and have a dispatcher deliver them; return their entries."""
    entries = station.roll_out(*ids, **how)
    station.deliver()
    return entries


def sweep_later(station: Station, *entries: str) -> None:
    """Have a dispatcher look for lost jobs an hour after these entries were leased."""
    station.age(*entries)
    station.sweep()


def busy_and_idle(station: Station, both: list[Scorers]) -> tuple[Scorers, Scorers]:
    """Return first the one of two workers that is at a job."""
    (busy,) = (
        worker
        for worker in both
        for name in station.rq_queues.living_workers()
        if f"-{worker.process.pid}-" in name and station.rq_queues.current([name])
    )
    return busy, both[1 - both.index(busy)]


def sleeping_for(seconds: float) -> dict[str, object]:
    """Return the same without sympy, which takes a worker's processor for seconds before it is ready."""
    return {"tasks": {"math": {"scorer": SLEEPER | {"queue": "math", "options": {"hanging_s": seconds}}}}}


@contextmanager
def running(dispatcher: Dispatcher) -> Iterator[None]:
    """Run the dispatcher's own loop, in a thread."""
    ended = threading.Event()
    thread = threading.Thread(target=dispatcher.run, args=(ended,))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
