"""Keeping leases while work goes on, and giving them up when a process must end.

In: the consumers of one process (`broker.protocol.streams`). Every generator and every scorer runs a `Renewer` beside
its work. A process that is killed does neither: its leases run out, and others take its entries over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from broker.protocol.streams import Consumer

log = logging.getLogger(__name__)


class Renewer:
    """A thread that renews a consumer's leases, every third of one, while the consumer's own thread is busy."""

    def __init__(self, consumers: Sequence[Consumer]) -> None:
        self._consumers = consumers
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="renewer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        period = min(consumer.lease_s for consumer in self._consumers) / 3
        while not self._stop.wait(period):
            started = time.monotonic()
            for consumer in self._consumers:
                try:
                    consumer.renew()
                except Exception:
                    log.exception("renewal_failed stream=%s", consumer.stream)
            if time.monotonic() - started > period:
                log.warning("renewal_slow took_s=%.1f lease_s=%.1f", time.monotonic() - started, period * 3)

    def stop(self) -> None:
        """End the thread; leases run out by themselves."""
        self._stop.set()
        self._thread.join(timeout=5.0)


def hand_back_within(hand_back: Iterable[Callable[[], int]], within_s: float) -> None:
    """Give leases up, for a process that must end. Takes `within_s` at most, and never raises.

    Args:
        hand_back: each gives up what one consumer holds (`Consumer.hand_back`) and says how many groups that were.
    """

    def give_up() -> None:
        for give in hand_back:
            try:
                log.warning("handed_back groups=%d", give())
            except Exception:
                log.exception("hand_back_failed: the leases run out")

    thread = threading.Thread(target=give_up, name="hand-back", daemon=True)
    thread.start()
    thread.join(within_s)
