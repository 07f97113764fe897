"""New weights on disk, published behind the next step; what was trained on keeps its slots until they are."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from broker import codec
from broker.connection import RedisLink
from broker.errors import Fenced, RunFailed, WentBack
from broker.keys import Keys
from broker.messages import Announcement
from broker.protocol.run_owner import RunOwner
from learner.groups.retirement import Retirement
from learner.training.batch import Batch
from learner.weight_sync import heard_requests
from learner.weight_sync import publisher as publishing
from learner.weight_sync.filesystem import FilesystemTransport
from learner.weight_sync.heard_requests import HeardRequests
from learner.weight_sync.publisher import Publisher
from learner.weight_sync.transport import Placed, SavedWeights, WeightHandle
from tests.learner.conftest import MakeChain, Train
from tests.support.chain import Chain, FilePolicy, TextWeights, make_run
from tests.support.loop import make_trainer

LIMIT_S = 20.0  # of whatever a test waits for


class Held:
    """A transport that holds each version up until it is let go; versions in `fails` fail instead."""

    def __init__(self) -> None:
        self.put_begun: list[int] = []
        self.content: dict[int, str] = {}
        self.fails: dict[int, Exception] = {}
        self.go = threading.Event()

    def start(self) -> None:
        """Nothing runs beside it."""

    def put(self, weights: WeightHandle, version: int) -> Placed:
        assert isinstance(weights, TextWeights)
        self.put_begun.append(version)
        assert self.go.wait(LIMIT_S), "the test never let it go"
        if version in self.fails:
            raise self.fails.pop(version)
        self.content[version] = weights.text
        return Placed(path=f"v{version}", checksum=f"sum {version}", size_bytes=1)

    def announced(self, announcement: Announcement) -> None:
        """Nothing is removed."""

    def close(self) -> None:
        self.go.set()


class Source:
    """Weights that change at every step."""

    def __init__(self) -> None:
        self.now = "as loaded"

    def gather_weights(self) -> TextWeights:
        return TextWeights(self.now)


@pytest.fixture
def transport() -> Held:
    return Held()


@pytest.fixture
def told() -> list[int]:
    return []


@pytest.fixture
def publisher(chain: Chain, transport: Held, told: list[int]) -> Iterator[Publisher]:
    made = Publisher(chain.run_owner, transport, announced=told.append)
    made.start()
    yield made
    transport.go.set()
    made.close()


def announced(chain: Chain) -> list[int]:
    """Return the versions that were announced since the chain's own, version 0."""
    entries = chain.client.xrange(chain.keys("weights"))[1:]
    return [codec.decode_announcement(fields).version for _, fields in entries]


def test_the_caller_goes_on_while_a_version_is_written_as_it_was_gathered(
    chain: Chain, publisher: Publisher, transport: Held, told: list[int]
) -> None:
    source = Source()
    source.now = "version 1"
    publisher.begin(source, 1)
    source.now = "half a step further"
    assert (announced(chain), told) == ([], [])
    transport.go.set()
    publisher.settle()
    assert (announced(chain), told, transport.content) == ([1], [1], {1: "version 1"})
    assert publisher.take_checksums() == {1: "sum 1"}
    assert publisher.take_checksums() == {}


def test_a_version_waits_for_the_one_before(chain: Chain, publisher: Publisher, transport: Held) -> None:
    source = Source()
    publisher.begin(source, 1)
    later = threading.Thread(target=publisher.begin, args=(source, 2))
    later.start()
    later.join(timeout=0.2)
    assert later.is_alive(), "version 2 is gathered while version 1 is being written"
    transport.go.set()
    later.join(timeout=LIMIT_S)
    publisher.settle()
    publisher.begin(source, 2)
    publisher.settle()
    assert (transport.put_begun, announced(chain)) == ([1, 2], [1, 2])


@pytest.mark.parametrize("error", [RunFailed("the disk is full"), Fenced("a newer learner")])
def test_what_fails_behind_the_step_is_raised_before_it_at_every_turn(
    chain: Chain, publisher: Publisher, transport: Held, error: Exception
) -> None:
    transport.fails[1] = error
    transport.go.set()
    publisher.begin(Source(), 1)
    again = functools.partial(publisher.begin, Source(), 2)
    for act in (publisher.settle, publisher.raise_failure, publisher.rest, again):
        with pytest.raises(type(error), match=str(error)):
            act()
    assert announced(chain) == []


def test_a_redis_that_went_back_is_the_recoverys_business_which_publishes_again(
    chain: Chain, publisher: Publisher, transport: Held, told: list[int]
) -> None:
    transport.fails[1] = WentBack("redis went back")
    transport.go.set()
    publisher.begin(Source(), 1)
    with pytest.raises(WentBack):
        publisher.settle()
    publisher.rest()
    publisher.raise_failure()
    publisher.publish(Source(), 1)
    publisher.publish(Source(), 1)  # the same Redis may have forgotten it once more
    assert (announced(chain), told, transport.put_begun) == ([1, 1], [1, 1], [1, 1])


def test_a_version_that_takes_too_long_is_named_and_no_announcement_passes_a_fence(
    chain: Chain, publisher: Publisher, transport: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fenced() -> None:
        raise Fenced("a newer learner has the run")

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "LOOK_S", 0.01)
        patch.setattr(publishing, "LIMIT_S", 0.05)
        publisher.begin(Source(), 7)
        with pytest.raises(RunFailed, match=r"version 7 of the weights.*learner\.weights"):
            publisher.settle()
    transport.go.set()
    publisher.settle()
    before = announced(chain)
    other = Publisher(chain.run_owner, transport, check_fence=fenced)
    other.start()
    other.begin(Source(), 8)
    with pytest.raises(Fenced):
        other.settle()
    other.close()
    assert announced(chain) == before


# ------------------------------------------------------------------------------------------------------- in the loop


class Steps(FilePolicy):
    """A policy that notes what is still out while it trains, and lets the transport go behind its second step."""

    def __init__(self, chain: Chain, transport: Held) -> None:
        super().__init__()
        self.chain = chain
        self.transport = transport
        self.slots: list[set[str]] = []

    def step(self, batch: Batch, *rest: Any) -> dict[str, float]:
        self.slots.append(self.chain.slots)
        if len(self.slots) == 2:
            assert self.transport.put_begun == [0, 1]
            assert announced(self.chain) == [0]
            threading.Timer(0.2, self.transport.go.set).start()  # version 2 has to wait for it
        return super().step(batch, *rest)


def test_a_step_trains_while_a_version_is_published_beside_it(make_chain: MakeChain, train: Train) -> None:
    chain, transport = make_chain(learner={"steps": 3, "max_lag": 2}), Held()
    transport.go.set()
    policy = Steps(chain, transport)
    trainer = make_trainer(chain, policy=policy, transport=transport)
    put = transport.put

    def put_and_hold(weights: WeightHandle, version: int) -> Placed:
        placed = put(weights, version)
        if version == 0:  # the first one is waited for; what comes then is held up
            transport.go.clear()
        return placed

    transport.put = put_and_hold  # type: ignore[method-assign]
    train(chain, trainer=trainer)
    trained = {record["step"]: set(record["ids"]) for record in chain.journal.ledger.steps}
    assert chain.selection.meter.read()["wait_publishing_s"] > 0, "the wait for a version has a name"
    assert trained[0] <= policy.slots[1], "a trained group has lost its slot before its version was announced"
    assert not trained[1] & policy.slots[0] - policy.slots[1]
    assert chain.slots == set()
    assert announced(chain) == [0, 1, 2, 3]
    assert chain.selection.breaches == 0


@pytest.mark.prove(after=1)
@pytest.mark.parametrize(
    ("every", "checkpoints", "rounds", "published"),
    [
        (3, 5, 4, [0, 3, 4, 5, 6, 7]),  # the last one is what the run is for
        (1, 0, 0, [0, 1, 2, 3, 4, 5, 6, 7]),
        (3, 0, 0, [0, 3, 6, 7]),
        (3, 5, 0, [0, 3, 5, 6, 7]),
        (3, 0, 4, [0, 3, 4, 6, 7]),
    ],
)
def test_every_nth_version_is_published_and_those_that_somebody_names(
    make_chain: MakeChain, train: Train, *, every: int, checkpoints: int, rounds: int, published: list[int]
) -> None:
    sections = {"weights": {"every": every}, "checkpoint": {"every": checkpoints, "keep": 2}}
    chain = make_chain(
        learner={"steps": 7, "max_lag": 2} | sections,
        evaluation={"every": rounds, "prompts": 1, "samples": 1},
    )
    train(chain)
    assert announced(chain) == published
    assert chain.slots == set()
    assert chain.selection.breaches == 0


def test_an_announcement_retires_the_steps_up_to_it_and_no_later_one(chain: Chain) -> None:
    ids = chain.issue(4)
    for group_id in ids:
        chain.score(group_id)
    chain.read()
    for version, some in enumerate((ids[:2], ids[2:])):
        groups = [chain.buffer.groups[group_id] for group_id in some]
        chain.journal.append(version, groups, [[0.5, -0.5]] * 2)
    woken: list[str] = []
    wake = functools.partial(woken.append, "feeder")
    retire = Retirement(chain.run_owner, chain.journal.ledger, chain.version, wake=wake)
    chain.reconciliation.look()  # it meets trained groups, and leaves them their slots
    assert chain.slots == set(ids)
    chain.announce(1)
    chain.version.announced = 0  # which `retire` notes
    retire(1)
    assert (chain.slots, chain.version.announced, woken) == (set(ids[2:]), 1, ["feeder"])
    chain.announce(2)
    chain.version.announced = 2
    chain.reconciliation.look()  # where the publisher's thread was cut off before it retired
    assert chain.slots == set()


class Gathers:
    """A source whose weights are these."""

    def __init__(self, weights: TextWeights) -> None:
        self.weights = weights

    def gather_weights(self) -> TextWeights:
        return self.weights


def test_a_version_is_whole_before_it_has_its_name(chain: Chain) -> None:
    transport = FilesystemTransport(chain.run)
    publisher = Publisher(chain.run_owner, transport)
    seen: list[list[str]] = []

    class Looks(TextWeights):
        def save_weights(self, folder: Path) -> SavedWeights:
            seen.append(sorted(path.name for path in transport.folder.iterdir()))
            return super().save_weights(folder)

    leftover = transport.folder / "v000001.tmp"
    leftover.mkdir(parents=True)
    (leftover / "half").write_text("of a crash")
    publisher.publish(Gathers(Looks("weights")), 1)
    assert seen == [["v000001.tmp"]]
    assert sorted(path.name for path in (transport.folder / "v000001").iterdir()) == ["model.safetensors"]


def test_versions_that_nobody_can_need_are_removed_and_nothing_else(chain: Chain) -> None:
    transport = FilesystemTransport(chain.run)
    publisher = Publisher(chain.run_owner, transport)
    for name in ("v000001.tmp", "notes", "vocabulary"):
        (transport.folder / name).mkdir(parents=True)
    for version in range(5):
        publisher.publish(FilePolicy(), version)
    assert {path.name for path in transport.folder.iterdir()} == {"v000003", "v000004", "notes", "vocabulary"}


def test_two_runs_that_share_a_directory_keep_their_versions_apart(tmp_path: Path, link: RedisLink) -> None:
    for name, steps in (("first", 0), ("second", 1)):
        run = make_run(tmp_path, name=name, learner={"weights": {"directory": tmp_path / "fast"}})
        run_owner, policy = RunOwner(link, Keys(name)), FilePolicy()
        run_owner.claim(0)
        policy.steps = steps
        Publisher(run_owner, FilesystemTransport(run)).publish(policy, 0)
    for name, content in (("first", "weights 0"), ("second", "weights 1")):
        assert (tmp_path / "fast" / name / "v000000" / "model.safetensors").read_text() == content


def test_a_full_disk_is_the_reason_with_the_version_and_its_folder(chain: Chain) -> None:
    class Full(TextWeights):
        def save_weights(self, folder: Path) -> SavedWeights:
            Path("/dev/full").write_bytes(b"weights")
            return super().save_weights(folder)

    transport = FilesystemTransport(chain.run)
    said = rf"^the weights of version 3 can't be written to {transport.folder}: No space left on device\. Make room"
    with pytest.raises(RunFailed, match=said):
        Publisher(chain.run_owner, transport).publish(Gathers(Full("weights")), 3)
    assert not (transport.folder / "v000003").exists()


@dataclass(frozen=True)
class CountedRequest:
    """A request that says nothing else."""

    count: int


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(heard_requests, "time", clock)
    return clock


def test_a_generator_lives_as_its_count_rises_after_the_first_look(clock: Clock) -> None:
    heard = HeardRequests[CountedRequest](old_s=10)
    heard.listen({})
    heard.listen({"a": CountedRequest(1), "b": CountedRequest(7)})
    clock.now += 4
    heard.listen({"a": CountedRequest(2), "b": CountedRequest(7)})
    assert heard.since(3) == {"a": CountedRequest(2)}
    assert heard.since(5) == {"a": CountedRequest(2), "b": CountedRequest(7)}
    heard.listen({"b": CountedRequest(1)})  # started again, under the same name
    assert heard.since(3) == {"b": CountedRequest(1)}
    heard = HeardRequests[CountedRequest](old_s=10)
    assert not heard.has_looked
    heard.listen({"a": CountedRequest(1), "b": CountedRequest(1)})
    assert heard.has_looked
    assert heard.since(10) == {}
    clock.now += 1
    heard.listen({"a": CountedRequest(1), "b": CountedRequest(2)})
    assert heard.since(10) == {"b": CountedRequest(2)}
