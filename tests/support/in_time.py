"""What happens beside a test's block, and how long the block may take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def later(seconds: float, act: Callable[[], object]) -> Iterator[None]:
    """Do `act` in a thread after so many seconds; the block ends behind it."""
    timer = threading.Timer(seconds, act)
    timer.start()
    yield
    timer.join()


@contextmanager
def within(most_s: float, *, least_s: float = 0.0) -> Iterator[None]:
    """Fail if the block takes longer than `most_s`, or less than `least_s`."""
    began = time.monotonic()
    yield
    assert least_s <= time.monotonic() - began < most_s
