"""`python -m broker.monitoring.health ROLE RUN`: check whether this machine's processes of a role work.

In: the heartbeats of this host. Out: exit code 0 and what each process does, or 1 and what is wrong. A heartbeat shows
that a process lives; its counts show that it works. A process that claims to work and has counted nothing for STUCK_S
is stuck. The time of the last change is kept in a file of this host's temporary folder between two checks.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from broker.errors import WrongBroker
from broker.keys import Keys
from broker.monitoring.snapshot import Process, processes_of
from broker.monitoring.work_meter import UNITS
from broker.redis_client import redis_client
from config.loading import redis_url

STUCK_S = 900.0  # longer than a long group or a slow step; a start has a state of its own
TIMEOUT_S = 5.0
PARTS: Final[Mapping[str, tuple[str, ...]]] = {  # processes that must exist
    "learner": ("learner",),
    "generator": ("generator",),
    "agent": ("agent",),
    "scorer": ("dispatcher", "scorer"),
}
PATIENT = (
    "wait",
    "starting",
    "loading",
    "reading",
    "checking",
    "training the journal",
)  # in states that may be long
USAGE = "usage: python -m broker.monitoring.health learner|generator|agent|scorer RUN\n"


def main(argv: Sequence[str] | None = None, *, clock: Callable[[], float] = time.time) -> int:
    """Check once. Returns 0: at work; 1: not; 2: bad arguments."""
    words = list(sys.argv[1:] if argv is None else argv)
    if len(words) != 2 or words[0] not in PARTS:
        sys.stderr.write(USAGE)
        return 2
    role, run = words
    url = redis_url()
    if url is None:
        sys.stderr.write("no REDIS_URL\n")
        return 1
    try:
        client = redis_client(
            url.get_secret_value(),
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )
        here = [
            process
            for process in processes_of(client, Keys(run))
            if process.role in PARTS[role] and process.host == socket.gethostname()
        ]
    except WrongBroker as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except redis.RedisError as error:
        sys.stderr.write(f"redis does not answer: {error}\n")
        return 1
    memory = Path(tempfile.gettempdir()) / f"millrace-health-{role}-{run}.json"
    now = clock()
    problems = judge(here, PARTS[role], _remembered(memory, here, now), now)
    told = problems or [f"{process.role} {process.id}: {process.state}" for process in here]
    sys.stdout.write("\n".join(told) + "\n")
    return 1 if problems else 0


def judge(here: Sequence[Process], roles: Sequence[str], since: Mapping[str, float], now: float) -> list[str]:
    """Return the problems, a line each; empty where all is well.

    Args:
        here: the processes of these roles on this host.
        since: when the counts of each last changed, by id, Unix seconds as `now`.
    """
    missing = [
        f"no {role} of this host has a heartbeat"
        for role in roles
        if not any(process.role == role for process in here)
    ]
    stuck = [
        f"{process.role} {process.id}: {process.state}, and nothing done for {now - since[process.id]:.0f} s"
        for process in here
        if not any(word in process.state for word in PATIENT) and now - since[process.id] > STUCK_S
    ]
    return missing + stuck


def _remembered(file: Path, here: Sequence[Process], now: float) -> dict[str, float]:
    """Return when each process last changed its counts, as checks on this host saw it; kept in `file`."""
    try:
        before = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = {}
    known, since = {}, {}
    for process in here:
        counted = [
            process.state,
            process.since,
            process.version,
            *(process.sums.get(unit, 0.0) for unit in UNITS),
        ]
        old = before.get(process.id, {})
        since[process.id] = float(old["since"]) if old.get("counted") == counted else now
        known[process.id] = {"counted": counted, "since": since[process.id]}
    aside = file.with_suffix(f".{os.getpid()}")
    aside.write_text(json.dumps(known), encoding="utf-8")
    aside.replace(file)
    return since


if __name__ == "__main__":
    sys.exit(main())
