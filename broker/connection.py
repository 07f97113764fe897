"""Wait out an outage of Redis, log it, and give up with a reason.

Every process has one `RedisLink`. The client's own retries are off: redis-py retries ten times by default, and a script
that silently ran twice would hide a lost reply. Every call through a link can be repeated safely, because the scripts
are written for that.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from importlib import resources
from typing import Any, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    MasterDownError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from broker.errors import BrokerUnavailable, NoRoom, WrongBroker
from broker.redis_client import EXAMPLE, TlsRefused, redis_client

log = logging.getLogger(__name__)
T = TypeVar("T")

SOCKET_TIMEOUT_S = 30.0  # longer than any blocking read below
FIRST_SAID_S = 0.5  # after the first failure, the first log line
SAY_EVERY_S = 5.0
LONGEST_PAUSE_S = 2.0
PASSING = {
    "OOM": "is full",
    "MISCONF": "can't write to its disk",
    "READONLY": "is a replica now and takes no writes",
    "NOREPLICAS": "has too few replicas to take writes",
    "MASTERDOWN": "has lost its master",
    "UNBLOCKED": "has broken off a waiting read",
}
# redis-py has classes for these and strips the word. 6.2 answers a script with a plain error that contains the word.
BY_CLASS = {OutOfMemoryError: "OOM", ReadOnlyError: "READONLY", MasterDownError: "MASTERDOWN"}

EachTry = Callable[[Callable[..., Any]], Any]


class Wait(Enum):
    """What a script waits for, at most `outage_s`."""

    FOR_ALL = auto()
    FOR_ALL_BUT_MEMORY = auto()  # all but full memory, which raises NoRoom
    FOR_NOTHING = auto()  # nothing: errors of Redis or the connection are raised as they are


class RedisLink:
    """A Redis client that waits for its server.

    Args:
        url: `redis://`, `rediss://` or `unix://`, with user and password where the server needs them, and redis-py's
            settings after a `?`: `ssl_ca_certs=FILE` is the authority that signed the server's certificate.
        outage_s: seconds without an answer after which `BrokerUnavailable` is raised.
        key: the setting that sets `outage_s`, for that message; "" where there is none.
        clock: seconds, monotonic.
        sleep: waits this many seconds before the next try; None: at most until `stop` is set.
    Attributes:
        stop: when set, ends a wait for Redis; an entry point assigns its own stop event.
        waited_s: seconds in which at least one call waited for Redis.
    Raises:
        WrongBroker: `url` has another scheme, or a setting or file in it can't be used.
    """

    def __init__(
        self,
        url: str,
        *,
        outage_s: float,
        key: str = "broker.outage_s",
        stop: threading.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self.url = url
        self.outage_s = outage_s
        self._key = key
        self.stop = stop or threading.Event()
        self._clock = clock
        self._sleep = sleep
        self._while_waiting: dict[int, Callable[[], None]] = {}  # by the id of the waiting thread
        self.waited_s = 0.0
        self._counted_until = 0.0
        self._counting = threading.Lock()
        self.client = redis_client(
            url,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=SOCKET_TIMEOUT_S,
            socket_connect_timeout=5.0,
            health_check_interval=0,
        )
        self._scripts: dict[str, tuple[str, str]] = {}  # name -> text, and its hash

    @property
    def address(self) -> str:
        """Return host and port, without the password."""
        options = self.client.connection_pool.connection_kwargs
        return options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"

    def __call__(self, attempt: Callable[[redis.Redis], T]) -> T:
        """Run `attempt` on the client; repeat it while Redis is away or refuses writes.

        Raises:
            WrongBroker: Redis refuses this user or password, or TLS can't be negotiated.
            BrokerUnavailable: no answer within `outage_s`, or `stop` was set while there was none.
        """
        return self._patiently(attempt, Wait.FOR_ALL)

    def wait_at_most(self, outage_s: float) -> None:
        """Give up after `outage_s` seconds without an answer from now on: a process that ends must not wait."""
        self.outage_s = outage_s

    @contextlib.contextmanager
    def while_waiting(self, act: Callable[[], None]) -> Iterator[None]:
        """Call `act` at least every half minute while a call of this thread waits for Redis."""
        thread = threading.get_ident()
        self._while_waiting[thread] = act
        try:
            yield
        finally:
            del self._while_waiting[thread]

    def _patiently(self, attempt: Callable[[redis.Redis], T], wait: Wait) -> T:
        since = tried = self._clock()
        say_at = since + min(FIRST_SAID_S, SAY_EVERY_S)
        pause = 0.05
        while True:
            try:
                return attempt(self.client)
            except (AuthenticationError, AuthorizationError, NoPermissionError) as error:
                raise WrongBroker(
                    f"redis at {self.address} refuses this user or password: {error}. {EXAMPLE}"
                ) from None
            except TlsRefused as error:
                raise WrongBroker(str(error)) from error
            except (RedisConnectionError, RedisTimeoutError, ResponseError) as error:
                if wait is Wait.FOR_NOTHING:
                    raise
                why = self._why(error, wait)
            waited = self._clock() - since
            if self.stop.is_set():
                raise BrokerUnavailable(f"stopped while waiting for redis: {why}")
            if waited > self.outage_s:
                limit = f"; {self._key}={self.outage_s:g}" if self._key else ""
                raise BrokerUnavailable(f"{why} (for {waited:.0f} s{limit})")
            if self._clock() > say_at:
                log.warning("waiting waited_s=%.0f for=%s", waited, why)
                say_at = self._clock() + SAY_EVERY_S
            if act := self._while_waiting.get(threading.get_ident()):
                act()
            (self._sleep or self.stop.wait)(pause)
            self._count(tried)
            tried = self._clock()
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def _count(self, since: float) -> None:
        with self._counting:
            now = self._clock()
            self.waited_s += now - max(since, self._counted_until)
            self._counted_until = now

    def _why(self, error: redis.RedisError, wait: Wait) -> str:
        """Return what the link waits for after `error`. Raises `error` where waiting does not help."""
        if not isinstance(error, ResponseError):
            return f"no answer from redis at {self.address}, check REDIS_URL: {error}"
        word = _passing(error)
        if word is None:
            raise error
        why = f"redis at {self.address} {PASSING[word]}: {error}"
        if word == "OOM" and wait is Wait.FOR_ALL_BUT_MEMORY:
            raise NoRoom(why) from error
        if word == "READONLY":  # the next try asks the server that then has the address
            self.client.connection_pool.disconnect(inuse_connections=False)
        return why

    def script(
        self,
        name: str,
        keys: list[str],
        *args: Any,
        guarded: bool = False,
        wait: Wait = Wait.FOR_ALL,
        each_try: EachTry | None = None,
    ) -> Any:
        """Run lua/`name`.lua.

        Args:
            guarded: run the learner's guard before the script.
            each_try: runs each try, without waiting inside. It calls its argument to run the script; the values it
                passes come before `args`.
        Raises:
            NoRoom: Redis's memory is full, and `wait` says not to wait for that; else the errors of any call of the
                link.
        """

        def attempt(client: redis.Redis) -> Any:
            def run(*first: Any) -> Any:
                return self._evaluate(client, name, keys, (*first, *args), guarded=guarded)

            return each_try(run) if each_try else run()

        return self._patiently(attempt, wait)

    def scripts(self, name: str, keys: list[str], many: Sequence[Sequence[Any]]) -> list[Any]:
        """Run lua/`name`.lua once for each of several arguments, in one round trip. Raises as a call of the link does.

        Errors from Redis are raised when all have run, and then all are tried again.
        """

        def attempt(client: redis.Redis) -> list[Any]:
            text, sha = self._script(client, name)
            pipe = client.pipeline(transaction=False)
            for args in many:
                pipe.evalsha(sha, len(keys), *keys, *args)
            replies = pipe.execute(raise_on_error=False)
            errors = [reply for reply in replies if isinstance(reply, redis.RedisError)]
            if any(isinstance(error, NoScriptError) for error in errors):
                return [client.eval(text, len(keys), *keys, *args) for args in many]
            if errors:
                raise errors[0]
            return list(replies)

        return self._patiently(attempt, Wait.FOR_ALL)

    def _script(self, client: redis.Redis, name: str, *, guarded: bool = False) -> tuple[str, str]:
        """Return a script's text and its hash in Redis."""
        if name not in self._scripts:
            text = script_text(*(["guard"] if guarded else []), name)
            self._scripts[name] = text, client.register_script(text).sha
        return self._scripts[name]

    def _evaluate(
        self, client: redis.Redis, name: str, keys: list[str], args: tuple[Any, ...], *, guarded: bool
    ) -> Any:
        text, sha = self._script(client, name, guarded=guarded)
        try:
            return client.evalsha(sha, len(keys), *keys, *args)
        except NoScriptError:
            return client.eval(text, len(keys), *keys, *args)

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


def script_text(*parts: str) -> str:
    """Return the text of these files of lua/, after keys.lua, which every script starts with."""
    folder = resources.files("broker") / "lua"
    return "\n".join((folder / f"{part}.lua").read_text() for part in ("keys", *parts))


def _passing(error: ResponseError) -> str | None:
    """Return the word of PASSING that an answer contains; None for a permanent error."""
    for kind, word in BY_CLASS.items():
        if isinstance(error, kind):
            return word
    found = re.search(rf"\b({'|'.join(PASSING)})\b", str(error))
    return found[1] if found else None


def check_url(url: str) -> None:
    """Check that `url` is the address of a Redis, before anything starts for it. Raises WrongBroker."""
    RedisLink(url, outage_s=0).close()
