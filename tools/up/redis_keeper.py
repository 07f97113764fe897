"""The keeper of a run's Redis keeps it alive for as long as the run goes on, on this machine.

In: a run. Out: the URL under which every role finds Redis. An external server, which REDIS_URL names, is left alone. A
private server that died is started again on its data, at its address; a server that keeps dying ends the run. Run by
`millrace up` and `millrace chaos`, in their main thread.
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
        """Tells whether the server is this run's alone, on this machine."""
        return self._server is not None

    def forgive(self, away_s: float = 0.0) -> None:
        """Expects the server's next death, which no limit counts; it is not started again for `away_s` seconds."""
        self._is_forgiven = True
        self._not_before = time.monotonic() + away_s

    def restart_if_dead(self) -> None:
        """Starts a private Redis that died again; called often, it looks once a second.

        Raises:
            RunFailed: the server keeps dying, or can't come back to the address that the roles know.
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
        """Flushes and ends a private server."""
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
    """Keeps the Redis of `run` for as long as this context lasts."""
    keeper = RedisKeeper(run)
    try:
        yield keeper
    finally:
        keeper.stop()
