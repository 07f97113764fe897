"""What the monkey does, to real small processes and a real Redis."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from pydantic import SecretStr

from config.run import Run
from tests.support.chain import make_run
from tests.support.told import Patch
from tests.support.waiting import wait_until
from tools.chaos.monkey import WEIGHTS, Monkey, Orders
from tools.chaos.targets import ROLES, SPARED_S, Observation, Targets, Victim
from tools.up.redis_keeper import RedisKeeper, redis_of

pytestmark = pytest.mark.process

Start = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path / "runs", name="stormy")


@pytest.fixture
def keeper(run: Run) -> Iterator[RedisKeeper]:
    with redis_of(run) as kept:
        yield kept


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def sleeper() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "300"]))
        return started[-1]

    yield sleeper
    for process in started:
        process.kill()
        process.wait()


@dataclass(frozen=True, slots=True)
class Spared(Victim):
    """A victim that nothing happens to."""

    def send(self, number: signal.Signals, *, to_tree: bool = False) -> bool:
        return True


class Stage:
    """A monkey before what the test lets it see."""

    def __init__(self, keeper: RedisKeeper, *victims: Victim, **orders: Any) -> None:
        self.victims = victims
        self.ready: dict[str, frozenset[str]] = {}
        self.version = 0
        self.forgiven: list[str] = []
        self.backs: list[str] = []
        self.client = redis.Redis.from_url(keeper.url)
        self.monkey = Monkey(
            Orders(**{"seconds": 60} | orders), look=self._look, forgive=self.forgiven.append, keeper=keeper,
            client=self.client, lease_s=0.2, on_back=lambda role, _seconds: self.backs.append(role),
        )  # fmt: skip

    def _look(self) -> Observation:
        return Observation(self.victims, self.ready, redis_answers=True, version=self.version)

    def tick(self, *, may_disturb: bool = True) -> None:
        """A tick whose time for a look and a disturbance has come."""
        self.monkey._looked = self.monkey._next = 0.0
        self.monkey.tick(may_disturb=may_disturb)


def state(process: subprocess.Popen[bytes]) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


Only = Callable[[str, str], None]


@pytest.fixture
def only(monkeypatch: Patch) -> Only:
    """Let a monkey do one thing to one role."""

    def weigh(kind: str, role: str) -> None:
        monkeypatch.setattr("tools.chaos.monkey.WEIGHTS", {(kind, role): 1.0})

    return weigh


def spared(*roles: str) -> list[Spared]:
    return [Spared(role, role, 1, ()) for role in roles]


@pytest.mark.parametrize("role", ["generator", "agent"])
def test_a_kill_hits_the_whole_tree_and_is_forgiven(
    keeper: RedisKeeper, start: Start, only: Only, role: str
) -> None:
    parent, child, other = start(), start(), start()
    stage = Stage(keeper, Victim(role, f"{role}-0", parent.pid, (child.pid,)))
    only("kill_tree", role)
    stage.tick()
    assert (parent.wait(5), child.wait(5), other.poll()) == (-9, -9, None)
    assert stage.forgiven == [f"{role}-0"]
    record = stage.monkey.record
    assert (record.kills, record.disturbances) == ({role: 1}, {f"kill_tree {role}": 1})


def any_has_ended(processes: list[subprocess.Popen[bytes]]) -> bool:
    return any(process.poll() is not None for process in processes)


def test_a_kill_of_the_learner_hits_any_of_its_ranks(keeper: RedisKeeper, start: Start, only: Only) -> None:
    only("kill", "learner")
    places = set()
    for seed in range(8):
        ranks = [start() for _ in range(3)]
        victim = Victim("learner", "learner", ranks[0].pid, (ranks[1].pid, ranks[2].pid))
        stage = Stage(keeper, victim, seed=seed)
        stage.tick()
        stage.version = 1
        stage.tick()
        wait_until(partial(any_has_ended, ranks))
        hit = [place for place, rank in enumerate(ranks) if rank.poll() == -9]
        assert len(hit) == 1
        places |= set(hit)
    assert len(places) > 1


def test_a_kill_that_hit_nothing_is_not_counted(keeper: RedisKeeper, start: Start, only: Only) -> None:
    gone = start()
    gone.kill()
    gone.wait()
    stage = Stage(keeper, Victim("scorer", "scorers-0", gone.pid, ()))
    only("kill", "scorer")
    stage.tick()
    assert not stage.monkey.record.disturbances
    assert not stage.monkey.returns.is_missing("scorer")


def test_a_stopped_process_goes_on_after_its_lease(keeper: RedisKeeper, start: Start, only: Only) -> None:
    process = start()
    stage = Stage(keeper, Victim("dispatcher", "scorers-0", process.pid, ()))
    only("stop", "dispatcher")
    began = time.monotonic()
    stage.tick()
    wait_until(lambda: state(process) == "T")
    while state(process) == "T":
        stage.tick()
        if stage.monkey.record.disturbances["stop dispatcher"] == 2:
            break  # it went on and was stopped again, between two of our looks
    assert time.monotonic() - began > 0.2
    stage.tick(may_disturb=False)
    wait_until(lambda: state(process) == "S")
    assert not stage.monkey.record.kills


def test_the_next_kill_of_a_learner_waits_for_a_step(keeper: RedisKeeper, only: Only) -> None:
    stage = Stage(keeper, *spared("learner"))
    only("kill", "learner")
    stage.tick()
    assert not stage.monkey.record.kills, "it stands where it began"
    stage.version = 1
    stage.tick()
    stage.tick()
    assert stage.monkey.record.kills == {"learner": 1}


def test_a_quota_is_kept_exactly_and_one_is_killed_after_the_other(keeper: RedisKeeper) -> None:
    others = [role for role in ROLES if role != "redis"]
    stage = Stage(keeper, *spared(*others), every_s=0.001, quota={"generator": 2, "scorer": 1})
    stage.tick()
    assert not stage.monkey.record.kills, "no step is done"
    stage.version = 1
    returned = 0
    while not stage.monkey.is_done:
        stage.tick()
        kills = sum(stage.monkey.record.kills.values())
        assert kills <= returned + 1, "nobody else was killed before the last one was back"
        returned = kills
        killed = stage.monkey.record.kills.items()
        stage.ready = {role: frozenset(f"{role}-{n}" for n in range(count)) for role, count in killed}
    assert stage.monkey.record.kills == {"generator": 2, "scorer": 1}
    assert sorted(stage.backs) == ["generator", "generator", "scorer"]


def test_turns_are_kept_whatever_else_is_possible(keeper: RedisKeeper) -> None:
    turns = ("scorer", "generator", "pool")
    stage = Stage(keeper, *spared(*turns), turns=turns)
    killed: list[str] = []
    for _ in range(7):
        before = stage.monkey.record.kills.copy()
        stage.tick()
        killed += stage.monkey.record.kills - before
    assert killed == [*turns, *turns, "scorer"]


def test_the_same_seed_does_the_same_in_the_same_order(keeper: RedisKeeper, monkeypatch: Patch) -> None:
    weights = {what: weight for what, weight in WEIGHTS.items() if what[1] != "redis"}
    monkeypatch.setattr("tools.chaos.monkey.WEIGHTS", weights)

    def order(seed: int) -> list[str]:
        stage = Stage(keeper, *spared("generator", "dispatcher", "scorer", "pool"), seed=seed)
        done: list[str] = []
        for _ in range(20):
            before = stage.monkey.record.disturbances.copy()
            stage.tick()
            done += stage.monkey.record.disturbances - before
        return done

    assert order(1) == order(1)
    assert order(1) != order(2)


@pytest.mark.parametrize(("kind", "is_killed"), [("kill", True), ("restart", False), ("cut", False)])
def test_redis_is_disturbed_and_returns(kind: str, is_killed: bool, keeper: RedisKeeper, only: Only) -> None:
    stage = Stage(keeper)
    only(kind, "redis")
    other = redis.Redis.from_url(keeper.url, single_connection_client=True)
    run_id = other.info("server")["run_id"]
    stage.tick()
    assert other.connection is not None
    with pytest.raises(redis.ConnectionError):  # the connection itself: a client would open a new one
        other.connection.read_response()
    stage.tick(may_disturb=False)

    def is_back() -> bool:
        keeper.restart_if_dead()
        with suppress(redis.ConnectionError):
            return bool(stage.client.ping())
        return False

    wait_until(is_back)
    assert (stage.client.info("server")["run_id"] == run_id) == (kind == "cut")
    assert stage.monkey.record.kills == ({"redis": 1} if is_killed else {})
    assert stage.monkey.record.disturbances == {f"{kind} redis": 1}


def test_a_redis_that_refuses_to_be_shut_down_was_not_restarted(keeper: RedisKeeper, only: Only) -> None:
    stage = Stage(keeper)
    only("restart", "redis")
    stage.client.acl_setuser("default", enabled=True, commands=["-shutdown"])
    stage.tick()
    assert stage.client.ping()
    assert not stage.monkey.record.disturbances
    assert not stage.monkey.returns.is_missing("redis")
    stage.client.acl_setuser("default", enabled=True, commands=["+shutdown"])  # for the end of the keeper


def test_everything_is_done_once_before_anything_twice(keeper: RedisKeeper, monkeypatch: Patch) -> None:
    weights = {what: weight for what, weight in WEIGHTS.items() if what[1] not in {"learner", "redis"}}
    monkeypatch.setattr("tools.chaos.monkey.WEIGHTS", weights)
    stage = Stage(keeper, *spared(*{role for _, role in weights}))
    for _ in weights:
        stage.tick()
        stage.monkey.let_go()
    assert stage.monkey.record.disturbances == {" ".join(what): 1 for what in weights}


def test_a_redis_that_may_be_others_is_left_alone(redis_url: str, run: Run) -> None:
    outside = run.model_copy(update={"broker": run.broker.model_copy(update={"url": SecretStr(redis_url)})})
    with redis_of(outside) as external:
        stage = Stage(external)
        stage.tick()
        assert not stage.monkey.record.disturbances


def test_targets_are_the_runs_own_processes_by_their_heartbeats(keeper: RedisKeeper) -> None:
    pool = subprocess.Popen(["bash", "-c", "sleep 300 & sleep 300 & wait"])
    stranger = subprocess.Popen(["sleep", "300"])
    client = redis.Redis.from_url(keeper.url)
    later = 0.0
    targets = Targets(lambda: {"scorers-0": pool.pid}, client, "stormy", clock=lambda: time.time() + later)
    try:
        wait_until(lambda: len(targets.look().of("pool")[0].tree) == 2)
        dispatcher, worker = sorted(targets.look().of("pool")[0].tree)
        for role, pid, doing in (
            ("dispatcher", dispatcher, "waiting for rollouts"),
            ("scorer", worker, "starting"),
            ("scorer", stranger.pid, "waiting for rollouts"),
        ):
            beat: Any = {"pid": pid, "host": socket.gethostname(), "state": doing, "since": "1"}
            client.hset(f"rl:{{stormy}}:alive:{role}:{role}-{pid}", mapping=beat)
        now = targets.look()
        assert (now.of("dispatcher"), now.of("scorer")) == ([], []), "killed now, they would count as failing"
        later = SPARED_S
        now = targets.look()
        assert [victim.pid for victim in now.of("dispatcher")] == [dispatcher]
        assert [victim.pid for victim in now.of("scorer")] == [worker], "the stranger is nobody's to kill"
        ready: dict[str, set[str]] = {role: set() for role in ("generator", "agent", "scorer")}
        ready |= {"dispatcher": {f"dispatcher-{dispatcher}"}, "program": set()}
        assert now.ready == ready, "one that only starts is not at work"
    finally:
        for victim in targets.look().of("pool"):
            victim.send(signal.SIGKILL, to_tree=True)
        stranger.kill()
        pool.wait()
        stranger.wait()


def test_programs_are_what_works_at_episodes_below_a_workers_processes_for_its_tasks(
    keeper: RedisKeeper,
) -> None:
    a_task = "bash -c 'sleep 300 & (sleep 300; true) & wait'"  # an agent as a function, and one as a command
    agent = subprocess.Popen(["bash", "-c", f"{a_task} & sleep 300 & wait"])
    targets = Targets(lambda: {"agent-0": agent.pid}, redis.Redis.from_url(keeper.url), "stormy")
    try:
        wait_until(lambda: len(targets.look().of("agent")[0].tree) == 5)
        now = targets.look()
        pids = {victim.pid for victim in now.of("program")}
        assert len(pids) == 2
        assert pids <= {*now.of("agent")[0].tree}
        assert now.ready["program"] == {str(pid) for pid in pids}
    finally:
        for victim in targets.look().of("agent"):
            victim.send(signal.SIGKILL, to_tree=True)
        agent.wait()
