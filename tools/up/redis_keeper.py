"""Keep a run's Redis alive for as long as the run continues, on this machine.

In: a run. Out: the URL of Redis for every role. An external server, named by REDIS_URL, is left alone. A private server
that died is restarted on its data, at its address; one that keeps dying ends the run. Run by `millrace up` and
`millrace chaos`, in their main thread.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator

from broker.connection import check_url
from broker.errors import RunFailed
from broker.private_redis import server
from broker.private_redis.server import Embedded
from broker.restarts import RestartPolicy, Restarts
from config.run import Run

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0


class RedisKeeper:
    """Keeps the Redis of a run alive.

    Attributes:
        url: of that Redis.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._restarts = Restarts(RestartPolicy())
        self._looked = time.monotonic()
        self._is_forgiven = False
        self._not_before = 0.0  # monotonic seconds of the next start
        self._server: Embedded | None = None
        if run.broker.url is None:
            self._server = server.start(run)
            self.url = self._server.url
        else:
            self.url = run.broker.url.get_secret_value()
            check_url(self.url)

    @property
    def is_private(self) -> bool:
        """Return whether the server belongs to this run alone, on this machine."""
        return self._server is not None

    def forgive(self, away_s: float = 0.0) -> None:
        """Expect the server's next death, which does not count; it is restarted only after `away_s` seconds."""
        self._is_forgiven = True
        self._not_before = time.monotonic() + away_s

    def restart_if_dead(self) -> None:
        """Restart a private Redis that died; call it often, it checks once a second.

        Raises:
            RunFailed: the server keeps dying, or can't return to the address that the roles know.
        """
        now = time.monotonic()
        if self._server is None or now - self._looked < LOOK_EVERY_S or now < self._not_before:
            return
        self._looked = now
        if not self._server.has_ended:
            return
        if not self._is_forgiven:
            self._count_restart(now)
        self._is_forgiven = False
        log.warning("redis died; starting it again on its data")
        self._server.stop()
        self._server = server.start(self._run)
        if self._server.url != self.url:
            raise RunFailed(
                "redis died, and its port was taken before it could be started again; start the run anew"
            )

    def stop(self) -> None:
        """Flush and stop a private server."""
        if self._server is not None:
            self._server.stop()

    def _count_restart(self, now: float) -> None:
        if not self._restarts.fail(now):
            raise RunFailed(
                f"redis died {self._restarts.failures} times within {self._restarts.policy.window_s:.0f} s; "
                f"{self._run.folder}/logs/redis.log says why"
            )


@contextlib.contextmanager
def redis_of(run: Run) -> Iterator[RedisKeeper]:
    """Keep the Redis of `run` alive within the block."""
    keeper = RedisKeeper(run)
    try:
        yield keeper
    finally:
        keeper.stop()
