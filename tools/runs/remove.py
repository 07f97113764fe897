"""`millrace rm RUN`: delete a run.

In: a run's name. Out: its keys in Redis and RQ's for its queues and jobs, its folder, and the file with its private
Redis' address are deleted. Asks first. Refuses a run that is alive, unless `--force` has it killed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from broker.errors import PipelineError
from broker.keys import Keys
from broker.monitoring.snapshot import RQ_QUEUE, keys_of
from broker.private_redis import addresses, server
from broker.redis_client import redis_client
from config.loading import redis_url
from config.run_names import is_run_name
from tools.arguments import add_run, add_runs_dir
from tools.confirmation import agrees
from tools.runs.command import is_run
from tools.runs.folder import holder, holder_text

END_S = 20.0  # for the processes of a killed run
BATCH = 1000  # keys per delete command
# RQ's keys of a queue in addition to its list; each is followed by the queue's name.
RQ_KINDS = ("queue", "wip", "finished", "failed", "deferred", "scheduled", "canceled", "workers")


class NotRemoved(PipelineError):
    """The run was not deleted, for the given reason."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace rm`."""
    add_run(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--force", action="store_true", help="even if the run is alive: it is killed")
    add_runs_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Delete a run. Raises NotRemoved."""
    return remove(options.run, options.runs_dir, is_sure=options.yes, is_forced=options.force)


def remove(name: str, runs_dir: Path, *, is_sure: bool, is_forced: bool) -> int:
    """Delete the run `name`. Returns 0, or 1 where the answer was no.

    Raises:
        NotRemoved: there is no such run, it is alive, or its Redis does not answer.
        NobodyToAsk: there is no terminal.
    """
    if not is_run_name(name):
        raise NotRemoved(f"{name!r} is no run's name")
    known = addresses.find(name, runs_dir) if redis_url() is None else None
    folder = Path(known.folder) if known else runs_dir / name
    client = _client(folder)
    keys = _keys_of_run(client, name) if client else []
    if not keys and not is_run(folder):
        raise NotRemoved(f"no run {name} in {runs_dir}; `millrace runs` lists what is there")
    living = _living(client, name, folder)
    if living and not is_forced:
        raise NotRemoved(f"run {name} is alive: {living}. Stop it first, or use --force, which kills it")
    question = f"remove run {name}: the folder {folder} and {len(keys)} keys in Redis?"
    if not is_sure and not agrees(question, what=name):
        sys.stdout.write("nothing was removed\n")
        return 1
    _kill(folder)
    if redis_url() is None:
        server.end(folder)
    elif client is not None:
        _delete(client, _keys_of_run(client, name))
    if folder.is_dir():
        shutil.rmtree(folder)
    addresses.discard(folder)
    sys.stdout.write(f"removed {name}: {folder}{f' and {len(keys)} keys' if keys else ''}\n")
    return 0


def _client(folder: Path) -> redis.Redis | None:
    """Open the Redis to clear. A stopped private one needs no clearing: its data are in the folder."""
    external = redis_url()
    known = addresses.read(folder)
    url = external.get_secret_value() if external else known.url if known else None
    if url is None:
        return None
    client = redis_client(url, retry=Retry(NoBackoff(), 0), socket_timeout=10.0, socket_connect_timeout=5.0)
    try:
        client.ping()
    except redis.RedisError as error:
        if external is None:
            return None
        raise NotRemoved(
            f"the Redis that REDIS_URL names does not answer ({error}), and the run's keys are there; "
            "unset REDIS_URL if the run had a private one"
        ) from None
    return client


def _keys_of_run(client: redis.Redis, name: str) -> list[bytes]:
    """Return the run's own keys, and RQ's of its queues (`NAME.QUEUE`) and jobs (`NAME_GROUP_K`; an id has no `_`)."""
    job = re.compile(rb"rq:job:" + re.escape(name.encode()) + rb"_[^_]+_\d+(:.*)?")
    found = keys_of(client, Keys(name).prefix)
    for kind in RQ_KINDS:
        found += keys_of(client, f"rq:{kind}:{name}.")
    return found + [key for key in keys_of(client, f"rq:job:{name}_") if job.fullmatch(key)]


def _delete(client: redis.Redis, keys: list[bytes]) -> None:
    for first in range(0, len(keys), BATCH):
        client.unlink(*keys[first : first + BATCH])
    if queues := [key for key in keys if key.startswith(RQ_QUEUE.encode())]:
        client.srem("rq:queues", *queues)


def _living(client: redis.Redis | None, name: str, folder: Path) -> str:
    """Name a living process of the run; "" for none."""
    if holder(folder) is not None:
        return f"`millrace up` runs it ({holder_text(folder)})"
    if client is not None and (beats := keys_of(client, Keys(name).alive("learner", ""))):
        return f"its learner's heart beats ({beats[0].decode().rpartition(':')[2]})"
    return ""


def _kill(folder: Path) -> None:
    """Kill the `millrace up` that runs this folder, if any; its processes die with it."""
    found = holder(folder)
    if found is None:
        return
    pid, host = found
    if host != socket.gethostname():
        raise NotRemoved(f"`millrace up` runs it on {host}, pid {pid}: stop it there")
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + END_S
    while holder(folder) is not None:
        if time.monotonic() > deadline:
            raise NotRemoved(f"pid {pid} was killed {END_S:.0f} s ago and still holds {folder / 'up.lock'}")
        time.sleep(0.05)
