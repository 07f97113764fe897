"""What rank 0 does while it waits for groups: the trainer's thread has nothing else that looks around.

In: the feeder, the operator's wishes in Redis, the policy's other ranks. Out: what ended the feeder is raised, what an
operator wants is told to the collector, dead groups that are wanted again are issued, and no rank's wait times out.
Called by `learner.groups.collector` in each turn of its wait.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from learner.groups.collector import Collector
from learner.groups.feeder import Feeder
from learner.groups.retries import Retries

if TYPE_CHECKING:
    from learner.training.backend import TrainingBackend

log = logging.getLogger(__name__)

KEEP_ALIVE_S = 30.0


class KeepAlive:
    """Keeps the other ranks' wait for a command from timing out, while rank 0 waits for groups or for Redis.

    A call within half a minute of the last one does nothing.
    """

    def __init__(self, policy: TrainingBackend) -> None:
        self._policy = policy
        self._last = time.monotonic()

    def __call__(self) -> None:
        """Raises what the process group raises where a rank is gone."""
        if time.monotonic() - self._last > KEEP_ALIVE_S:
            self._last = time.monotonic()
            self._policy.keep_alive()


class Tending:
    """What is done while waiting: notice a dead feeder, hear operators, keep the other ranks' wait alive."""

    def __init__(
        self,
        keep_alive: Callable[[], None],
        feeder: Feeder,
        retries: Retries,
        asked: Callable[[], str],
    ) -> None:
        self.collector: Collector | None = None
        self._keep_alive = keep_alive
        self._feeder = feeder
        self._retries = retries
        self._asked = asked

    def __call__(self) -> None:
        """Raises what ended the feeder."""
        has_died = self._feeder.has_died  # asked first: a thread that ends says why before it does
        if self._feeder.failure is not None:
            raise self._feeder.failure
        if has_died:
            raise RuntimeError("the feeder's thread has ended: this is a bug, please report it")
        wanted = self._asked()
        self._feeder.is_open = not wanted
        if self.collector is not None and wanted != self.collector.wanted:
            log.warning("asked wanted=%s", wanted or "to go on")
            self.collector.wanted = wanted
        if not wanted:
            self._retries.look()
        self._keep_alive()
