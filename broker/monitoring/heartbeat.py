"""Publish that this process lives, and what it does or waits for, in a hash that expires.

Out: the hash `alive:ROLE:ID`, which Redis removes a few seconds after the process that refreshes it has died; a log
line when a process waits long. Operators and `broker.monitoring.snapshot` read the hash. The heartbeat decides nothing
about work: leases do. While Redis is away the heartbeat keeps trying.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import redis

from broker.connection import RedisLink
from broker.keys import Keys
from broker.monitoring.stall_warning import FIRST_S, Watchdog
from broker.monitoring.work_meter import UNITS, WorkMeter, as_fields

log = logging.getLogger(__name__)

TTL_S = 15.0
LOOK_S = 1.0  # a new state reaches Redis within about this time


class Heartbeat:
    """Keep `alive:ROLE:ID` fresh from a thread.

    Fields: pid; host; state (what the process does or waits for, in words); since (Unix seconds when that state began);
    version (of the policy, where it has one); any other values of `set_state`; the sums of `meter`.

    Args:
        role: generator | agent | dispatcher | scorer | learner.
        process: unique among the run's processes.
        ttl_s: seconds without a refresh after which the key expires.
        long_wait_s: seconds of waiting after which a log line says so; infinite: never.
        clock: seconds, monotonic.
    Attributes:
        meter: measures how much the process works; the process updates it.
    """

    def __init__(
        self,
        link: RedisLink,
        keys: Keys,
        role: str,
        process: str,
        *,
        ttl_s: float = TTL_S,
        long_wait_s: float = FIRST_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.meter = WorkMeter(clock)
        self._clock = clock
        self._watchdog = Watchdog(link.client, keys, first_s=long_wait_s)
        self._client = link.client  # not the link, which would wait: the next beat replaces a lost one
        self._key = keys.alive(role, process)
        self._ttl_s = ttl_s
        self._fields = {
            "pid": str(os.getpid()),
            "host": socket.gethostname(),
            "state": "starting",
            "since": f"{time.time():.3f}",
            "version": "",
        }
        self._is_new = True
        self._sums: dict[str, float] = {}  # as of the last beat
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_beating, name="heartbeat", daemon=True)
        self._thread.start()

    def set_state(self, state: str, **fields: str) -> None:
        """Set what the process does or waits for now; never blocks."""
        with self._lock:
            if state != self._fields["state"]:
                self._fields["since"] = f"{time.time():.3f}"
            if (fields := {"state": state, **fields}).items() - self._fields.items():
                self._is_new = True
                self._fields.update(fields)

    def stop(self) -> None:
        """Stop the thread and remove the key, when the process ends normally."""
        self._stop.set()
        self._thread.join(timeout=5.0)
        with contextlib.suppress(redis.RedisError):
            self._client.delete(self._key)

    def _keep_beating(self) -> None:
        beaten = -math.inf
        is_away = False
        while True:
            try:
                if self._is_new or self._has_worked() or self._clock() - beaten >= self._ttl_s / 3:
                    self._beat()
                    beaten = self._clock()
                self._watchdog.look(self.meter.idle_s, self._fields["state"], is_ready=self.meter.is_ready)
                is_away = False
            except redis.RedisError as error:
                if not is_away:
                    log.warning("heartbeat not heard key=%s error=%s", self._key, error)
                is_away = True
                self._is_new = True
            if self._stop.wait(min(LOOK_S, self._ttl_s / 3)):
                return

    def _has_worked(self) -> bool:
        """Return whether the meter has counted work since the last beat."""
        return any(
            value != self._sums.get(name)
            for name, value in self.meter.read().items()
            if name == "busy_s" or name in UNITS
        )

    def _beat(self) -> None:
        self._sums = dict(self.meter.read())
        with self._lock:
            fields: dict[Any, Any] = {**self._fields, **as_fields(self._sums)}
            self._is_new = False
        with self._client.pipeline(transaction=True) as pipe:  # never a hash that does not expire
            pipe.hset(self._key, mapping=fields)
            pipe.pexpire(self._key, int(self._ttl_s * 1000))
            pipe.execute()
