"""Check whether a run can rely on a Redis.

In: the address of a Redis, and its run, if known. Out: findings. Each check is one query with a deadline, and changes
nothing. Without an address, the program that `millrace up` would start is checked.
"""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, AuthorizationError, NoPermissionError
from redis.retry import Retry

from broker.connection import RedisLink
from broker.errors import WrongBroker
from broker.private_redis import server as embedded
from broker.protocol.run_reader import MEMORY_SHARE
from broker.redis_client import TlsRefused, redis_client
from config.run import Run
from learner.status import OLDEST_REDIS
from tools.doctor.findings import Check, CheckFinding, readable
from tools.estimates.stores import redis_room

AREA = "redis"
ADDRESS, VERSION, PERSISTENCE, ROLE = (
    Check(AREA, name) for name in ("address", "version", "persistence", "role")
)
EVICTION, MEMORY, CLOCK, LATENCY = (Check(AREA, name) for name in ("eviction", "memory", "clock", "latency"))
PROGRAM = Check(AREA, "program")

ANSWER_S = 5.0
PINGS = 20
TLS_URL = "'rediss://USER:PASSWORD@HOST:PORT/0?ssl_ca_certs=/path/ca.pem'"
CLOCK_NOTE_S, CLOCK_PROBLEM_S = 1.0, 10.0  # deadlines of groups are minutes
SLOW_MS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisFacts:
    """A Redis server's description of itself."""

    address: str
    info: Mapping[str, Any]
    clock_ahead_s: float  # of the server, relative to this machine's
    latency_ms: float  # of one round trip, the median


def check_redis(url: str, run: Run | None = None) -> Iterator[CheckFinding]:
    """Yield all findings about the Redis at `url`."""
    try:
        server = ask(url)
    except (WrongBroker, redis.RedisError) as error:
        yield unreachable(url, error)
        return
    yield ADDRESS.ok(f"{server.address} answers")
    durable = run is None or run.broker.durability == "aof"
    yield version(server.info)
    yield role(server.info)
    yield persistence(server.info, is_wanted=durable)
    yield eviction(server.info, is_wanted=durable)
    yield memory(server.info, needed_bytes=0 if run is None else redis_room(run).total)
    yield clock(server.clock_ahead_s)
    yield latency(server.latency_ms)


def ask(url: str) -> RedisFacts:
    """Query a Redis about itself. Raises WrongBroker: no URL; RedisError: no answer, or a refusal."""
    with closing(RedisLink(url, outage_s=0)) as link:
        address = link.address
    with redis_client(
        url, retry=Retry(NoBackoff(), 0), socket_timeout=ANSWER_S, socket_connect_timeout=ANSWER_S
    ) as client:
        info: Any = client.info()
        took = []
        for _ in range(PINGS):
            before = time.perf_counter()
            client.ping()
            took.append(time.perf_counter() - before)
        before_s = time.time()
        seconds, micros = client.time()
        ahead_s = seconds + micros / 1e6 - (before_s + time.time()) / 2
    return RedisFacts(address=address, info=info, clock_ahead_s=ahead_s, latency_ms=1000 * median(took))


def unreachable(url: str, error: Exception) -> CheckFinding:
    """Make the finding that there is no answer, or a refusal."""
    if isinstance(error, WrongBroker):
        example = TLS_URL if url.startswith("rediss:") else "redis://USER:PASSWORD@HOST:PORT/0"
        return ADDRESS.problem(str(error), do=f"export REDIS_URL={example}")
    with closing(RedisLink(url, outage_s=0)) as link:
        address = link.address
    if isinstance(error, (AuthenticationError, AuthorizationError, NoPermissionError)):
        return ADDRESS.problem(
            f"{address} refuses this user or password: {error}",
            do="export REDIS_URL=redis://USER:PASSWORD@HOST:PORT/0 with the right ones",
        )
    if isinstance(error, TlsRefused):
        return ADDRESS.problem(error.seen, do=error.do)
    host, _, port = address.rpartition(":")
    tried = f"redis-cli -h {host} -p {port} ping" if port.isdigit() else f"redis-cli -s {address} ping"
    return ADDRESS.problem(
        f"{address} does not answer: {error}", do=f"{tried}; is it running, is REDIS_URL right?"
    )


def version(info: Mapping[str, Any]) -> CheckFinding:
    """Check the version: streams need XAUTOCLAIM."""
    found = str(info["redis_version"])
    oldest = ".".join(map(str, OLDEST_REDIS))
    if tuple(int(part) for part in found.split(".")[:2]) < OLDEST_REDIS:
        return VERSION.problem(
            f"{found}, and {oldest} is the oldest that will do (XAUTOCLAIM)",
            do="install redis-server 6.2 or newer, or unset REDIS_URL for a private one",
        )
    return VERSION.ok(found)


def role(info: Mapping[str, Any]) -> CheckFinding:
    """Check the server's role: a run needs a single writable server."""
    if info.get("redis_mode") == "cluster":
        return ROLE.problem(
            "a cluster: RQ's queues lie on another slot than the run's streams", do="use a single server"
        )
    if info.get("role") not in {None, "master"}:
        return ROLE.problem(
            f"a replica of {info.get('master_host')}: it takes no writes",
            do=f"set REDIS_URL to its master, {info.get('master_host')}:{info.get('master_port')}",
        )
    return ROLE.ok("a single server that takes writes")


def persistence(info: Mapping[str, Any], *, is_wanted: bool = True) -> CheckFinding:
    """Check for the append-only file: without it, work in flight is lost with the server."""
    if not int(info.get("aof_enabled", 0)):
        seen = "no append-only file: what is under way is lost when this server ends"
        do = "redis-cli CONFIG SET appendonly yes"
        return (
            PERSISTENCE.problem(seen, do=f"{do} (or broker.durability=none, if you mean it)")
            if is_wanted
            else PERSISTENCE.note(f"{seen}, as broker.durability=none allows", do=do)
        )
    if info.get("aof_last_write_status") == "err" or info.get("aof_last_bgrewrite_status") == "err":
        return PERSISTENCE.problem(
            "the append-only file could not be written the last time",
            do="make room on the disk that CONFIG GET dir names, and look into its log",
        )
    return PERSISTENCE.ok("append-only file")


def eviction(info: Mapping[str, Any], *, is_wanted: bool = True) -> CheckFinding:
    """Check the eviction policy: evicted keys are lost work."""
    policy = str(info.get("maxmemory_policy", "unknown"))
    if policy == "noeviction":
        return EVICTION.ok("noeviction: work is never thrown away to make room")
    do = "redis-cli CONFIG SET maxmemory-policy noeviction"
    if int(info.get("maxmemory", 0)) and is_wanted:
        return EVICTION.problem(f"{policy}: at its limit of memory it throws groups away", do=do)
    return EVICTION.note(f"{policy}: as soon as maxmemory is set it throws groups away", do=do)


def memory(info: Mapping[str, Any], *, needed_bytes: float) -> CheckFinding:
    """Check that a full budget of groups fits."""
    limit, used = int(info.get("maxmemory", 0)), int(info.get("used_memory", 0))
    total = int(info.get("total_system_memory", 0))
    there = limit or total
    needs = (
        f"; a full budget of groups, held-out ones and weights take at most about {readable(needed_bytes)}"
        if needed_bytes
        else ""
    )
    seen = f"{readable(used)} of {readable(there)} used{'' if limit else ', no limit of its own'}{needs}"
    free = there * (MEMORY_SHARE if limit else 1.0) - used
    if there and needed_bytes > free:
        wanted = math.ceil((used + needed_bytes) / MEMORY_SHARE / 2**20)
        return MEMORY.note(
            f"{seen}: the learner waits where it is short",
            do=f"redis-cli CONFIG SET maxmemory {wanted}mb, or a smaller learner.groups_in_flight",
        )
    return MEMORY.ok(seen)


def clock(ahead_s: float) -> CheckFinding:
    """Compare the clocks: ages and deadlines use the clocks of several machines."""
    seen = f"{abs(ahead_s):.2f} s {'ahead of' if ahead_s > 0 else 'behind'} this machine's"
    do = "timedatectl set-ntp true on both machines"
    if abs(ahead_s) > CLOCK_PROBLEM_S:
        return CLOCK.problem(f"{seen}: groups may die of their deadline too early", do=do)
    return (
        CLOCK.note(f"{seen}: ages on screens are wrong by as much", do=do)
        if abs(ahead_s) > CLOCK_NOTE_S
        else CLOCK.ok(seen)
    )


def latency(median_ms: float) -> CheckFinding:
    """Check the latency: each group costs some dozen round trips."""
    seen = f"{median_ms:.2f} ms for a question and its answer"
    if median_ms > SLOW_MS:
        return LATENCY.note(
            f"{seen}: slow for short answers", do="put Redis nearer to scorers and generators"
        )
    return LATENCY.ok(seen)


def check_private(find: Callable[[], Path] = embedded.executable) -> Iterator[CheckFinding]:
    """Check for the redis-server that `millrace up` starts where REDIS_URL is not set."""
    yield ADDRESS.ok("REDIS_URL is not set: `millrace up` starts a private one in the run's folder")
    try:
        program = find()
        found = embedded.version_of(program)
    except (WrongBroker, OSError, subprocess.SubprocessError) as error:
        yield PROGRAM.problem(
            f"no redis-server: {error}", do="sudo apt-get install redis-server, or make setup"
        )
        return
    if found < embedded.OLDEST:
        yield PROGRAM.problem(
            f"{program} says of itself: version {'.'.join(map(str, found)) or 'unknown'}",
            do="sudo apt-get install redis-server, or make setup",
        )
        return
    yield PROGRAM.ok(
        f"{program}, version {'.'.join(map(str, found))}, with an append-only file and noeviction"
    )
