"""A heartbeat's thread is waited for by what it does, and not by seconds."""

from __future__ import annotations

import threading

from broker.monitoring.heartbeat import Heartbeat
from tests.support.waiting import WITHIN_S


def looks(heart: Heartbeat, count: int = 3) -> None:
    """Return when the heart has looked so many times more whether there is something to say."""
    looked, stop = threading.Semaphore(0), heart._stop
    wait = stop.wait

    def counted(timeout: float | None = None) -> bool:
        looked.release()
        return wait(timeout)

    stop.wait = counted  # type: ignore[method-assign]
    for _ in range(count + 1):  # the first may be the end of a look from before
        assert looked.acquire(timeout=WITHIN_S)
    stop.wait = wait  # type: ignore[method-assign]
