"""Run a program's threads one at a time, a piece at a time: a machine decides who goes on, and who never does again.

A `Strand` is a real thread that stands still wherever it *parks*: before each command to Redis, at each fsync, wherever
it would wait. `advance` lets it go on to the next such place, and `kill` ends it where it stands, as kill -9 would, but
for `finally`. So the learner's own loop and its feeder, unchanged, are driven between any two of their lines.

`Threading` and `Clock` stand in for the modules `threading` and `time` in the code that is driven: its threads are
strands, its waits park, and a second passes only because somebody waited for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from time import struct_time
from typing import Any

STUCK_S = 60.0  # real seconds without a sign from a strand: it blocks in something that does not park


class Killed(BaseException):
    """Raised where a strand parks: its process is no more. No `except Exception` holds it up."""


class Strand:
    """One thread of a process that is driven.

    Attributes:
        process: what the strands of one process have in common; one that a strand starts inherits it.
        place: where it stands.
        result, error: of its function, once it has ended.
    """

    def __init__(self, name: str, body: Callable[[], Any], process: Process) -> None:
        self.name, self.process = name, process
        self.place, self.has_ended = "start", False
        self.result: Any = None
        self.error: BaseException | None = None
        self._body = body
        self._is_doomed = False
        self._go, self._back = (
            threading.Lock(),
            threading.Lock(),
        )  # handed to and fro: cheaper than semaphores
        self._go.acquire()
        self._back.acquire()
        self._thread = threading.Thread(target=self._run, name=f"strand-{name}", daemon=True)
        self._thread.start()

    def advance(self) -> str:
        """Let it go on to the next place where it parks. Returns that place; "end" once it has ended."""
        if self.has_ended:
            return "end"
        self._go.release()
        if not self._back.acquire(timeout=STUCK_S):
            raise AssertionError(f"{self.name} blocks after {self.place}, in something that does not park")
        return "end" if self.has_ended else self.place

    def kill(self) -> None:
        self._is_doomed = True
        while not self.has_ended:
            self.advance()

    def park(self, place: str) -> None:
        """Called in the strand itself."""
        self.place = place
        self._back.release()
        self._go.acquire()
        if self._is_doomed:
            raise Killed

    def _run(self) -> None:
        _here.strand = self
        self._go.acquire()
        try:
            if not self._is_doomed:
                self.result = self._body()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - whoever drives it decides what it means
            self.error = error
        finally:
            self.has_ended = True
            self._back.release()


class Process:
    """The strands of one process, in the order in which they began."""

    def __init__(self) -> None:
        self.strands: list[Strand] = []

    def start(self, name: str, body: Callable[[], Any]) -> Strand:
        self.strands.append(Strand(name, body, self))
        return self.strands[-1]

    def kill(self) -> None:
        for strand in self.strands:
            strand.kill()

    @property
    def is_running(self) -> bool:
        """Whether its first strand, which is its main thread, has not ended."""
        return not self.strands[0].has_ended


class _Here(threading.local):
    strand: Strand | None = None


_here = _Here()


def current() -> Strand | None:
    """Return the strand that calls; None in a thread that is nobody's."""
    return _here.strand


def park(place: str) -> None:
    if (strand := current()) is not None:
        strand.park(place)


class Clock:
    """Stands in for the module `time`: seconds pass when `advance` says so."""

    def __init__(self) -> None:
        self._started = time.time()
        self.passed = 0.0

    def advance(self, seconds: float) -> None:
        self.passed += seconds

    def monotonic(self) -> float:
        return 1000.0 + self.passed

    def perf_counter(self) -> float:
        return self.monotonic()

    def time(self) -> float:
        return self._started + self.passed

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        park("sleep")

    def strftime(self, form: str, *moment: struct_time) -> str:
        return time.strftime(form, *moment)

    def gmtime(self, seconds: float | None = None) -> struct_time:
        return time.gmtime(self.time() if seconds is None else seconds)

    def localtime(self, seconds: float | None = None) -> struct_time:
        return time.localtime(self.time() if seconds is None else seconds)


class Lock:
    """A lock that only one strand at a time gets past; whoever holds it may come in again, as into an RLock."""

    def __init__(self) -> None:
        self._owner: Strand | None = None
        self._depth = 0

    def __enter__(self) -> bool:
        me = current()
        while self._depth and self._owner is not me:
            assert me is not None, "the machine itself would wait for a strand that stands still"
            park("lock")
        self._owner = me
        self._depth += 1
        return True

    def __exit__(self, *_: object) -> None:
        self._depth -= 1


class Threading:
    """Stands in for the module `threading`."""

    Lock = RLock = Lock
    Condition = threading.Condition  # of the dumps, which no run here has: nobody waits for it

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def get_ident(self) -> int:
        return id(current())

    def Event(self) -> Event:  # noqa: N802 - as the module has it
        return Event(self._clock)

    def Thread(self, *, target: Callable[[], Any], name: str = "thread", daemon: bool = False) -> Thread:  # noqa: N802
        return Thread(target, name)


class Event(threading.Event):
    """An event whose wait takes no real time."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        if not self.is_set():
            self._clock.advance(timeout or 0.0)
            park("wait")
        return self.is_set()


class Thread:
    """A thread that becomes a strand of the process that starts it."""

    def __init__(self, target: Callable[[], Any], name: str) -> None:
        self._target, self._name = target, name
        self._strand: Strand | None = None

    def start(self) -> None:
        strand = current()
        assert strand is not None, "only a strand's program starts threads"
        self._strand = strand.process.start(self._name, self._target)

    @property
    def ident(self) -> int | None:
        """None before `start`."""
        return None if self._strand is None else id(self._strand)

    def is_alive(self) -> bool:
        return self._strand is not None and not self._strand.has_ended

    def join(self, timeout: float | None = None) -> None: ...
