"""The link to Redis: waits out an outage, says so, and gives up with a reason.

Every process has one `Link`. The client's own retries are off (redis-py retries ten times by default, and a script run
twice without our knowing would hide a lost reply); all that goes through a link may be repeated safely, since the
scripts are written so.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from importlib import resources
from typing import Any, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import (
    TimeoutError as RedisTimeoutError,
)
from redis.retry import Retry

from broker.errors import BrokerUnavailable, WrongBroker

log = logging.getLogger(__name__)
T = TypeVar("T")

SOCKET_TIMEOUT_S = 30.0       # longer than any blocking read below
SAY_EVERY_S = 5.0
LONGEST_PAUSE_S = 2.0
EXAMPLE = "Set REDIS_URL=redis://USER:PASSWORD@HOST:PORT"


class Link:
    """A Redis client that waits for its server.

    Args:
        url: `redis://`, `rediss://` or `unix://`, with user and password where the server wants them.
        outage_s: seconds without an answer after which `BrokerUnavailable` is raised.
    Attributes:
        stop: set, it ends a wait for Redis; an entry point puts its own request to end here.
    Raises:
        WrongBroker: `url` is none of these.
    """

    def __init__(self, url: str, *, outage_s: float) -> None:
        self.url = url
        self.outage_s = outage_s
        self.stop = threading.Event()
        try:
            self.client: redis.Redis = redis.Redis.from_url(
                url, retry=Retry(NoBackoff(), 0), socket_timeout=SOCKET_TIMEOUT_S, socket_connect_timeout=5.0,
                health_check_interval=0)
        except ValueError as error:         # never the URL itself: it may hold a password
            raise WrongBroker(f"REDIS_URL is no URL of a redis: {error}. {EXAMPLE}") from None
        self._scripts: dict[str, Any] = {}

    @property
    def address(self) -> str:
        """Host and port, without the password."""
        options = self.client.connection_pool.connection_kwargs
        return options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"

    def __call__(self, attempt: Callable[[redis.Redis], T]) -> T:
        """Run `attempt` on the client, again and again while Redis is away, or its memory or disk is full.

        Raises:
            WrongBroker: Redis refuses this user or password.
            BrokerUnavailable: no answer within `outage_s`, or `stop` was set while there was none.
        """
        since = time.monotonic()
        said = since
        pause = 0.05
        while True:
            try:
                return attempt(self.client)
            except (AuthenticationError, AuthorizationError, NoPermissionError) as error:
                raise WrongBroker(f"redis at {self.address} refuses this user or password: {error}. "
                                  f"{EXAMPLE}") from None
            except (RedisConnectionError, RedisTimeoutError, ReadOnlyError) as error:
                why = f"no answer from redis at {self.address}: {error}"
            except ResponseError as error:
                if isinstance(error, OutOfMemoryError) or "OOM" in str(error):       # the latter from a script
                    why = f"redis at {self.address} is full: {error}"
                elif "MISCONF" in str(error):
                    why = f"redis at {self.address} can't write to its disk: {error}"
                else:
                    raise
            waited = time.monotonic() - since
            if self.stop.is_set():
                raise BrokerUnavailable(f"stopped while waiting for redis: {why}")
            if waited > self.outage_s:
                raise BrokerUnavailable(f"{why} (for {waited:.0f} s; broker.outage_s={self.outage_s:g})")
            if time.monotonic() - said > SAY_EVERY_S:
                log.warning("waiting waited_s=%.0f for=%s", waited, why)
                said = time.monotonic()
            self.stop.wait(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def script(self, name: str, keys: list[str], *args: Any, guarded: bool = False) -> Any:
        """Run lua/`name`.lua; with `guarded`, the learner's guard is put before it."""
        if name not in self._scripts:
            folder = resources.files("broker") / "lua"
            parts = ["keys", *(["guard"] if guarded else []), name]
            text = "\n".join((folder / f"{part}.lua").read_text() for part in parts)
            self._scripts[name] = text
        text = self._scripts[name]
        return self(lambda client: _run(client, text, keys, args))

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


def _run(client: redis.Redis, text: str, keys: list[str], args: tuple[Any, ...]) -> Any:
    script = client.register_script(text)
    try:
        return client.evalsha(script.sha, len(keys), *keys, *args)
    except NoScriptError:
        return client.eval(text, len(keys), *keys, *args)
