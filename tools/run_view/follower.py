"""A run watched from outside: the last looks at it, kept while Redis is away.

In: a run's name and where its Redis is. Out: snapshots with their verdict. Used by `millrace top` and `millrace
metrics`. It only reads, gives up on no outage, and waits for no answer for longer than TIMEOUT_S.
"""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from broker.errors import WrongBroker
from broker.joining import ENDED
from broker.monitoring.snapshot import Snapshot, snapshot
from learner.status import read_status
from tools.run_view.finding import BottleneckFinding, over
from tools.run_view.flow import Flow

TIMEOUT_S = 2.0
WINDOW_S = 20.0  # between the first and the last look that a verdict is of


class Watch:
    """One run.

    Args:
        url: of its Redis.
        folder: of the run, which may be on another machine: where Redis has gone with the run, it says how that ended.
    Attributes:
        trouble: why Redis did not answer the last time; "" where it did.
    Raises:
        WrongBroker: `url` is none.
    """

    def __init__(self, url: str, name: str, folder: Path) -> None:
        self.name = name
        self.trouble = "it has not been asked yet"
        self._folder = folder
        self._looks: deque[Snapshot] = deque()
        self._heard = time.monotonic()
        self._client = client_of(url)

    def look(self) -> bool:
        """Look once. False: Redis did not answer, and what was seen last stays."""
        try:
            found = snapshot(self._client, self.name)
        except redis.RedisError as error:
            self.trouble = f"{type(error).__name__}: {error}"
            return False
        self.trouble = ""
        self._heard = time.monotonic()
        if (
            self._looks and found.at < self._looks[-1].at
        ):  # its clock was set back: nothing before can be compared
            self._looks.clear()
        self._looks.append(found)
        while len(self._looks) > 2 and found.at - self._looks[1].at >= WINDOW_S:
            self._looks.popleft()
        return True

    @property
    def newest(self) -> Snapshot | None:
        """What was seen last; None before the first answer."""
        return self._looks[-1] if self._looks else None

    @property
    def silent_s(self) -> float:
        """Seconds since Redis answered, or since this began."""
        return time.monotonic() - self._heard

    def verdict(self) -> tuple[BottleneckFinding, Flow]:
        """What holds the run up, by the looks of the last WINDOW_S. After the first look."""
        return over(list(self._looks))

    def how_it_ended(self) -> str:
        """`finished`, or another status with its reason; "" where the run has not ended, as far as is known here."""
        found = self.newest
        if found is not None and not self.trouble:
            return _how(found.status, found.reason)
        status = read_status(self._folder)
        return _how(str(status.get("status", "")), str(status.get("reason", "")))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def client_of(url: str) -> redis.Redis:
    """A client that answers or fails soon. Raises WrongBroker: `url` is none."""
    try:
        return redis.Redis.from_url(
            url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 0)
        )
    except ValueError as error:  # never the URL itself: it may hold a password
        raise WrongBroker(f"REDIS_URL is no URL of a redis: {error}") from None


def _how(status: str, reason: str) -> str:
    return (f"{status}: {reason}" if reason else status) if status in ENDED else ""
