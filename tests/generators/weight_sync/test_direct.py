"""Direct weights from the learner's thread to generators, by couriers that are processes. Real Redis, real gloo."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from broker.connection import RedisLink
from broker.direct_weights.courier_process import COMMAND
from broker.direct_weights.records import State
from broker.errors import RunFailed
from broker.keys import Keys
from config.learner import FilesystemTransportConfig, NcclDirectConfig
from generators.weight_sync.direct.member import DirectMember
from learner.weight_sync import direct
from learner.weight_sync.build import build_transport
from tests.generators.weight_sync.direct_weights import DirectGenerator, SendingLearner, content_of, fake
from tests.support.chain import make_run
from tests.support.waiting import wait_until, wait_until_gone

pytestmark = pytest.mark.process

BIG = 40_000_000  # more than the sockets between two couriers hold


class Machines:
    """The learner and the generators of one test, which are ended with it."""

    def __init__(self, link: RedisLink, keys: Keys, folder: Path) -> None:
        self.link, self.keys, self.folder = link, keys, folder
        self.ends: list[Callable[[], None]] = []

    def learner(self, **settings: object) -> SendingLearner:
        learner = SendingLearner(self.link, self.keys, self.folder, **settings)  # type: ignore[arg-type]
        self.ends.append(learner.sender.stop)
        return learner

    def generator(
        self, name: str = "a", command: tuple[str, ...] = COMMAND, timeout_s: float = 60.0
    ) -> DirectGenerator:
        made = DirectGenerator(self.link, self.keys, name, command=command, timeout_s=timeout_s)
        self.ends.append(made.receiver.close)
        return made


@pytest.fixture
def machines(link: RedisLink, keys: Keys, tmp_path: Path) -> Iterator[Machines]:
    made = Machines(link, keys, tmp_path)
    yield made
    for end in reversed(made.ends):
        end()


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "SETTLE_S", 0.5)
    monkeypatch.setattr(direct, "RETRY_S", 0.5)


def pid_of(owner: object) -> int:
    courier = owner._courier  # type: ignore[attr-defined]
    assert courier is not None
    return int(courier.pid)


def stop_in_a_bucket(learner: SendingLearner, generator: DirectGenerator) -> int:
    """Publish a version that a generator stops receiving. Returns its courier's process."""
    receiving = pid_of(generator.member)
    os.kill(receiving, signal.SIGSTOP)
    learner.publish(0, BIG)
    wait_until(lambda: generator.member.expected == 0)
    return receiving


@pytest.mark.prove(cases=("ipc",))
@pytest.mark.parametrize("kind", ["gloo", "ipc"])
def test_two_generators_are_sent_each_version_bit_for_bit(machines: Machines, kind: str) -> None:
    learner = machines.learner(kind=kind)
    generators = [machines.generator(name) for name in "ab"]
    learner.open_epoch("a", "b")
    for version, (size, parts) in enumerate([(3_000_000, 1), (1 << 20, 1), (2_500_001, 3), (1, 1)]):
        learner.publish(version, size, parts=parts)
        for generator in generators:
            assert generator.take(learner.announced) == (content_of(version, size), True)
    assert [generator.receiver.fallbacks for generator in generators] == [0, 0]


@pytest.mark.prove
def test_a_member_that_is_killed_in_a_bucket_and_one_that_joins_late_cost_a_round(machines: Machines) -> None:
    learner, here, dying = machines.learner(), machines.generator("a"), machines.generator("b")
    learner.open_epoch("a", "b")
    os.kill(pid_of(dying.member), signal.SIGSTOP)
    learner.publish(0, BIG)
    wait_until(lambda: here.member.expected == 0)
    os.kill(pid_of(dying.member), signal.SIGKILL)
    dying.receiver.close()  # as a generator's end
    assert here.take(learner.announced, within_s=20) == (content_of(0, BIG), False)
    late = machines.generator("c")
    assert late.take(learner.announced, within_s=5) == (content_of(0, BIG), False)  # it waits for nobody
    learner.open_epoch("a", "c")
    learner.publish(1, BIG)
    assert [one.take(learner.announced) for one in (here, late)] == [(content_of(1, BIG), True)] * 2


@pytest.mark.prove
def test_members_of_a_learner_that_is_killed_in_a_bucket_read_the_file(machines: Machines) -> None:
    learner, generator = machines.learner(), machines.generator()
    learner.open_epoch("a")
    receiving = stop_in_a_bucket(learner, generator)
    os.kill(pid_of(learner.sender), signal.SIGKILL)
    os.kill(receiving, signal.SIGCONT)
    assert generator.take(learner.announced, within_s=20) == (content_of(0, BIG), False)


@pytest.mark.prove
def test_a_newer_version_makes_a_round_void_and_the_epoch_stays(machines: Machines) -> None:
    learner, generator = machines.learner(), machines.generator()
    before = learner.open_epoch("a")
    receiving = stop_in_a_bucket(learner, generator)
    learner.publish(1, BIG)
    wait_until(lambda: learner.sender._offered is not None)
    time.sleep(0.5)  # for the sender to be told
    os.kill(receiving, signal.SIGCONT)
    assert generator.take(learner.announced) == (content_of(1, BIG), True)
    after = learner.open_epoch("a")
    assert after.id == before.id
    assert after.round is not None
    assert after.round.number == 2


@pytest.mark.prove
def test_a_hanging_collective_holds_up_nobody(machines: Machines, caplog: pytest.LogCaptureFixture) -> None:
    learner = machines.learner(command=fake("stuck"), timeout_s=2.0)
    generator = machines.generator(command=fake("stuck"), timeout_s=2.0)
    learner.open_epoch("a")
    wait_until(lambda: generator.member.open_since)
    couriers = pid_of(learner.sender), pid_of(generator.member)
    began = time.monotonic()
    learner.publish(0)
    assert time.monotonic() - began < 1.0  # the publisher goes on
    assert generator.take(learner.announced, within_s=10) == (content_of(0, 3_000_000), False)
    wait_until_gone(*couriers, within_s=10)
    assert "waited 2 s for 1 generators to take version 0" in caplog.text
    learner.publish(1)
    learner.sender.stop()
    assert not learner.sender._thread.is_alive()


@pytest.mark.prove
def test_who_hangs_three_times_asks_no_more(machines: Machines, caplog: pytest.LogCaptureFixture) -> None:
    learner = machines.learner(command=fake("mute-later"), timeout_s=1.0)
    generator = machines.generator(command=fake("mute"), timeout_s=1.0)
    learner.publish(0)
    assert generator.take(learner.announced, within_s=5) == (content_of(0, 3_000_000), False)
    wait_until(lambda: "direct_given_up failures=3" in caplog.text, within_s=60)
    wait_until(lambda: learner.board.wishes() == {})
    learner.publish(1)
    assert generator.take(learner.announced, within_s=5) == (content_of(1, 3_000_000), False)


def test_who_does_not_connect_is_left_out_by_name(
    machines: Machines, caplog: pytest.LogCaptureFixture
) -> None:
    learner = machines.learner(command=fake("absent"), timeout_s=5.0)
    machines.generator(command=fake("mute"), timeout_s=5.0)
    wait_until(lambda: "direct_absent generators=a" in caplog.text)
    wait_until(lambda: (epoch := learner.board.read_epoch()) and epoch.state is State.ENDED)
    assert learner.sender._living() == ()


def test_nccl_without_a_gpu_is_refused_at_the_learners_start(machines: Machines, tmp_path: Path) -> None:
    run = make_run(tmp_path)
    weights = FilesystemTransportConfig(direct=NcclDirectConfig(type="nccl"))
    run = run.model_copy(update={"learner": run.learner.model_copy(update={"weights": weights})})
    with pytest.raises(RunFailed, match=r"direct\.type=nccl needs a GPU"):
        build_transport(run, machines.link, machines.keys, fence=lambda: 1, mean_bytes=lambda: 0.0)


def test_a_courier_lost_while_redis_is_away_costs_its_epoch_alone(link: RedisLink, keys: Keys) -> None:
    heard: list[float] = []

    class Member(DirectMember):
        def look(self) -> None:
            raise redis.ConnectionError("away")

        def hear(self, wait_s: float) -> None:
            heard.append(wait_s)
            if len(heard) == 1:
                raise FileNotFoundError(errno.ENOENT, "what it had staged has gone with it")
            self._stop.wait(0.01)

    member = Member(link, keys, "g")
    try:
        wait_until(lambda: len(heard) > 2, what="the thread to go on")
        assert "gone with it" in member.reason
    finally:
        member.close()
