"""Redis is killed, forgets, is emptied and is full while a run goes on: work is done again, none is lost or doubled."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from broker.connection import RedisLink
from broker.private_redis import server as embedded
from broker.protocol.run_state import DRAIN, ask
from tests.e2e.conftest import PLAIN, Roles
from tests.support.forked_program import fork_module
from tests.support.redis_servers import RedisServer

pytestmark = [pytest.mark.e2e, pytest.mark.prove(after=2)]

GROUPS = 8
# A step takes at least as long as a group, and there is no last one: the run goes on until it is drained.
SETTINGS = (
    *PLAIN,
    "broker.lease_s=2",
    "learner.steps=5000",
    f"learner.groups_per_step={GROUPS}",
    f"generators.groups_in_flight={GROUPS}",
)
AWAY_S = 2.5  # longer than a lease
BALLAST = bytes(32 << 20)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """Yield a Redis of the run's own."""
    server = RedisServer(tmp_path / "redis")
    yield server
    server.kill()


@pytest.fixture
def roles(tmp_path: Path, server: RedisServer) -> Iterator[Roles]:
    """Yield the roles of one run on it."""
    made = Roles(tmp_path, server.url, "trouble")
    yield made
    made.end()


Processes = list[subprocess.Popen[bytes]]


def start(roles: Roles) -> Processes:
    """Start the learner, then the others."""
    return [roles.learner(*SETTINGS), roles.generator(), roles.scorers()]


def steps(roles: Roles, processes: Processes, more: int) -> None:
    """Wait for `more` steps, with everybody alive."""
    metrics = roles.folder / "metrics.jsonl"
    before = len(roles.metrics()) if metrics.exists() else 0

    def are_done() -> bool:
        assert [process.poll() for process in processes] == [None] * len(processes), roles.all_logs()
        return metrics.exists() and len(roles.metrics()) >= before + more

    roles.until(are_done, f"{more} steps after {before}")


def drain(roles: Roles, server: RedisServer, processes: Processes) -> None:
    """End the run with nothing in flight, and look what has become of everything."""
    with contextlib.closing(RedisLink(server.url, outage_s=10)) as link:
        ask(link, roles.keys, DRAIN)
    assert [roles.wait(process) for process in processes] == [0] * len(processes), roles.all_logs()
    found = roles.audit()
    assert found.is_clean, found
    assert (found.lost, found.twice, found.in_flight, found.dropped, found.dead) == (0, 0, 0, 0, 0), found
    assert found.trained == found.issued > 0
    done = [record["step"] for record in roles.metrics()]
    assert done == list(range(1, len(done) + 1)), "none undone"


def whole_log(process: subprocess.Popen[bytes]) -> str:
    """Return all that the process has said; `Roles.log_of` has the end."""
    return str(process.log.read_text())  # type: ignore[attr-defined]


def seq(roles: Roles, server: RedisServer) -> int:
    """Return how many of the learner's scripts a Redis knows of."""
    with redis.Redis.from_url(server.url) as client:
        return int(client.hget(roles.keys("cursor"), "seq") or 0)


def replica_of(server: RedisServer, folder: Path, roles: Roles) -> RedisServer:
    """Return a replica that has what `server` has."""
    replica = RedisServer(folder, "--replicaof", "127.0.0.1", str(server.port))
    with redis.Redis.from_url(replica.url) as client:
        roles.until(lambda: client.info("replication")["master_link_status"] == "up", "the replica's copy")
    return replica


@pytest.mark.prove
def test_a_redis_that_was_away_and_a_redis_that_was_emptied_cost_no_group(
    roles: Roles, server: RedisServer
) -> None:
    processes = start(roles)
    steps(roles, processes, 3)

    server.kill()
    time.sleep(AWAY_S)
    server.start()  # on an append-only file that is flushed every second
    steps(roles, processes, 3)
    for process in processes:
        assert "no answer from redis at 127.0.0.1" in whole_log(process), "every role says whom it waits for"

    roles.redis.flushall()
    steps(roles, processes, 3)
    assert "redis_was_empty" in whole_log(processes[0])
    drain(roles, server, processes)


@pytest.mark.prove
def test_an_older_replica_and_another_redis_in_its_place_cost_no_group(
    roles: Roles, server: RedisServer, tmp_path: Path
) -> None:
    processes = start(roles)
    steps(roles, processes, 3)
    replica = replica_of(server, tmp_path / "replica", roles)
    with redis.Redis.from_url(replica.url) as client:
        client.replicaof("NO", "ONE")  # what happens from now on never reaches it
    known = seq(roles, replica)
    steps(roles, processes, 3)
    assert seq(roles, server) > known
    server.kill()
    replica.stop()
    server.folder = replica.folder
    server.start()  # the replica's data under the master's address
    steps(roles, processes, 3)
    assert "redis_forgot groups=" in whole_log(processes[0]), "the learner says what is issued again"

    processes[0].terminate()
    assert [roles.wait(process) for process in processes] == [0, 0, 0], roles.all_logs()
    server.kill()
    server.folder = tmp_path / "another"  # an empty Redis in its place
    server.folder.mkdir()
    server.start()
    processes = start(roles)
    steps(roles, processes, 3)
    assert "redis_was_empty" in whole_log(processes[0])
    drain(roles, server, processes)


@pytest.mark.prove
def test_a_full_redis_lets_out_what_is_there_says_what_it_needs_and_drops_nothing(
    roles: Roles, server: RedisServer
) -> None:
    learner, _, scorers = processes = start(roles)
    steps(roles, processes, 3)
    roles.redis.config_set("maxmemory", 1)  # in the middle of everything
    roles.until(lambda: "is full" in whole_log(scorers), "who has to write says why it waits", 20)
    roles.redis.config_set("maxmemory", 0)
    steps(roles, processes, 3)

    roles.redis.set("another program's", BALLAST)  # beside it, what the run's own keys take is nothing
    roles.until(lambda: used_memory(roles) < 1.5 * len(BALLAST), "its copies in buffers are gone")
    limit = int(used_memory(roles) / 0.85)  # more than 80% of it is used, and it is not full
    roles.redis.config_set("maxmemory", limit)
    roles.until(lambda: int(roles.redis.zcard(roles.keys("slots"))) == 0, "what is there is trained")
    said = [line for line in whole_log(learner).splitlines() if "waiting for=memory" in line]
    assert "nothing new is issued beyond 80%" in said[-1]
    needed = re.search(r"needs (\d+) MiB more", said[-1])
    assert needed
    roles.redis.config_set("maxmemory", limit + (int(needed[1]) << 20))
    steps(roles, processes, 3)
    drain(roles, server, processes)


def used_memory(roles: Roles) -> int:
    """Bytes."""
    return int(roles.redis.info("memory")["used_memory"])


@pytest.mark.parametrize("command", [
    ("learner", "--config", "config/recipes/demo_cpu.yaml", "name=away", "runs_dir={folder}"),
    ("generators", "--run", "away"),
    ("scorers", "--run", "away"),
], ids=["learner", "generator", "scorers"])  # fmt: skip
def test_who_is_told_to_end_while_redis_is_away_has_not_failed(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        words = [word.format(folder=tmp_path) for word in command]
        url = f"redis://127.0.0.1:{listener.getsockname()[1]}/0"
        role = fork_module(*words, stderr=subprocess.PIPE, text=True, REDIS_URL=url)
        try:
            listener.accept()[0].close()  # it asks, and hears nothing
            role.send_signal(signal.SIGTERM)
            listener.close()
            _, said = role.communicate(timeout=60)
        finally:
            role.kill()
            role.wait()
    assert role.returncode == 0, said
    assert "stopped while waiting for redis" in said


@pytest.mark.parametrize(("options", "setting"), [
    (("--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"), ("maxmemory-policy", "noeviction")),
    (("--appendonly", "no"), ("appendonly", "yes")),
], ids=["it evicts", "it keeps nothing"])  # fmt: skip
def test_a_redis_that_would_lose_work_is_refused_at_once_with_the_command_that_mends_it(
    tmp_path: Path, options: tuple[str, ...], setting: tuple[str, str]
) -> None:
    server = RedisServer(tmp_path / "redis", *options)
    roles = Roles(tmp_path, server.url, "refused")
    try:
        learner = roles.learner(*SETTINGS, forked=True)
        assert roles.wait(learner) == 1
        log = whole_log(learner)
        assert "policy ready" not in log, "before anything heavy is loaded"
        command = re.search(rf"redis at 127.0.0.1:{server.port} .*: redis-cli (CONFIG SET \S+ \S+)", log)
        assert command, log
        typed = [embedded.carried("redis-cli"), "-p", str(server.port), *command[1].split()]
        subprocess.run(typed, check=True)
        name, value = setting
        assert roles.redis.config_get(name) == {name: value}
        assert not list(roles.redis.scan_iter()), "nothing was written to it"
    finally:
        roles.end()
        server.kill()
