"""Weights through Redis: the learner's relay and a generator that does not see its folder. Real Redis, real files."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import xxhash

from broker import weight_chunks
from broker.connection import RedisLink
from broker.errors import RunFailed
from broker.keys import Keys
from broker.messages import Announcement
from broker.protocol.announcements import Announcements
from broker.protocol.run_owner import RunOwner
from config.generators import HfEngineConfig, VllmEngineConfig
from config.learner import LearnerConfig
from config.run import Run
from generators.engines.build import build_engine
from generators.weight_sync import follower as weights
from generators.weight_sync import redis_fetch
from generators.weight_sync.build import build_receiver
from generators.weight_sync.filesystem import FilesystemReceiver
from generators.weight_sync.follower import WeightFollower
from generators.weight_sync.receiver import NotHere, Received, TooLarge
from generators.weight_sync.redis_fetch import RedisReceiver
from learner.weight_sync import relay as relay_module
from learner.weight_sync.build import build_transport
from learner.weight_sync.filesystem import FilesystemTransport
from learner.weight_sync.publisher import Publisher
from learner.weight_sync.relay import Relay, RelayTransport
from learner.weight_sync.version_folder import FILE
from tests.support.byte_model import make_run as make_engine_run
from tests.support.chain import FilePolicy, make_run
from tests.support.published_weights import RecordingEngine
from tests.support.waiting import wait_until

CHUNK = 1000
SIZE = 3500  # of a version: four chunks, the last one short


class LearnersMachine:
    """Versions in a folder that no generator sees, and the relay, which looks when it is told to."""

    def __init__(self, run: Run, link: RedisLink, keys: Keys, folder: Path) -> None:
        self.link, self.keys, self.folder = link, keys, folder
        self.owner = RunOwner(link, keys)
        self.owner.claim(0)
        self.announced: dict[int, Announcement] = {}
        self.relay = Relay(
            run, link, keys, fence=lambda: self.owner.fence, mean_bytes=lambda: 0.0, chunk_bytes=CHUNK
        )

    def publish(self, version: int) -> Announcement:
        """Write, tell the relay, and announce under a path that other machines do not have."""
        content = content_of(version)
        place = self.folder / f"v{version}"
        place.mkdir()
        (place / FILE).write_bytes(content)
        here = Announcement(
            version=version,
            path=str(place),
            checksum=xxhash.xxh3_128(content).hexdigest(),
            size_bytes=SIZE,
            announced_at=0.0,
        )
        self.announced[version] = here
        self.owner.announce(
            Announcement(
                version=version,
                path=f"/the/learners/v{version}",
                checksum=here.checksum,
                size_bytes=SIZE,
                announced_at=0.0,
            )
        )
        self.relay.offer(here)
        return here

    def chunks(self) -> set[str]:
        """Keys of chunks that are in Redis, without what they have in common."""
        prefix = self.keys("weights:")
        return {
            key.decode().removeprefix(prefix)
            for key in self.link.client.scan_iter(match=f"{prefix[:3]}*")
            if key.decode().startswith(prefix)
        }


def content_of(version: int) -> bytes:
    return hashlib.shake_256(str(version).encode()).digest(SIZE)


def all_chunks(version: int) -> set[str]:
    return {f"{version}:{chunk}" for chunk in range(4)}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path)


@pytest.fixture
def learner(run: Run, link: RedisLink, keys: Keys, tmp_path: Path) -> LearnersMachine:
    return LearnersMachine(run, link, keys, tmp_path)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where generators put what they are given."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


class Asking:
    """A generator that asks until it has an answer."""

    def __init__(self, learner: LearnersMachine, name: str = "g", *, most_bytes: int = SIZE) -> None:
        self.learner = learner
        self.held = -1
        self.weights = RedisReceiver(learner.link, learner.keys, name, most_bytes=most_bytes)

    def ask(self) -> tuple[int, bytes]:
        """Return what it is given of the newest announcement; the relay looks meanwhile, as often as it has to."""
        reason = None
        for _ in range(5):
            with suppress(NotHere):
                return self.fetch()
            self.learner.relay.look()
        raise AssertionError(reason)

    def fetch(self) -> tuple[int, bytes]:
        """Ask once."""
        announced = self.learner.announced
        version, file = self.weights.fetch(
            announced[max(announced)],
            {number: one.checksum for number, one in announced.items()},
            held=self.held,
        )
        return version, file.read_bytes()

    def load(self, version: int) -> None:
        """It holds that version now."""
        self.weights.loaded(Received(version=version, file=Path("nothing")))
        self.held = version


@pytest.fixture
def generator(learner: LearnersMachine) -> Iterator[Asking]:
    asking = Asking(learner)
    yield asking
    asking.weights.close()


def test_a_generator_that_sees_no_folder_follows_through_redis_and_leaves_nothing_behind(
    learner: LearnersMachine,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    loaded: list[tuple[int, bytes]] = []

    async def body() -> None:
        engine = RecordingEngine(lambda file, version: loaded.append((version, file.read_bytes())))
        given = RedisReceiver(learner.link, learner.keys, "g", most_bytes=SIZE)
        follower = WeightFollower(
            Announcements(learner.link, learner.keys), engine, FilesystemReceiver(given)
        )
        task = asyncio.create_task(follower.follow())
        learner.publish(0)
        await asyncio.wait_for(follower.at_least(0), 10)
        learner.publish(1)
        await asyncio.wait_for(follower.at_least(1), 10)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert files() == ["lock"]
        given.close()

    def files() -> list[str]:
        return [path.name for path in temporary.glob("*/*")]

    monkeypatch.setattr(weights, "ASK_S", 0.02)
    monkeypatch.setattr(relay_module, "LOOK_S", 0.02)
    learner.relay.start()
    asyncio.run(body())
    assert loaded == [(0, content_of(0)), (1, content_of(1))]
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "waiting for the learner to put them into Redis" in said  # once, and not at each version
    learner.relay.stop()
    assert (learner.chunks(), list(temporary.iterdir())) == (set(), [])


def test_a_learner_of_the_relay_alone_is_followed_on_its_own_machine(
    link: RedisLink, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path, learner={"weights": {"type": "relay"}})
    owner = RunOwner(link, keys)
    owner.claim(0)
    monkeypatch.setattr(relay_module, "LOOK_S", 0.02)
    monkeypatch.setattr(weights, "ASK_S", 0.02)
    transport = build_transport(run, link, keys, fence=lambda: owner.fence, mean_bytes=lambda: 0.0)
    assert isinstance(transport, RelayTransport)
    publisher, policy = Publisher(owner, transport), FilePolicy()
    loaded: list[tuple[int, str]] = []

    async def body() -> None:
        engine = RecordingEngine(lambda file, version: loaded.append((version, file.read_text())))
        given = build_receiver(run, link, keys, "g")
        follower = WeightFollower(Announcements(link, keys), engine, given)
        task = asyncio.create_task(follower.follow())
        for version in range(2):
            policy.steps = version
            await asyncio.to_thread(publisher.publish, policy, version)
            await asyncio.wait_for(follower.at_least(version), 10)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        given.close()

    transport.start()
    asyncio.run(body())
    transport.close()
    assert loaded == [(0, "weights 0"), (1, "weights 1")]


def test_nothing_is_in_redis_before_somebody_asks_nor_after_the_last_has_left(
    learner: LearnersMachine, generator: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner.publish(7)
    learner.relay.look()
    assert learner.chunks() == set()
    assert generator.ask() == (7, content_of(7))
    assert learner.chunks() == all_chunks(7)
    ttl: Any = learner.link.client.ttl(learner.keys("weights:7:0"))
    assert 0 < ttl <= weight_chunks.EXPIRY_S
    monkeypatch.setattr(relay_module, "SILENT_S", 0.0)
    learner.relay.look()
    assert learner.chunks() == set()


def test_a_flipped_byte_is_refused_and_the_version_put_there_again(
    learner: LearnersMachine, generator: Asking
) -> None:
    learner.publish(7)
    generator.ask()
    learner.link.client.setrange(learner.keys("weights:7:2"), 500, bytes([content_of(7)[2500] ^ 1]))
    with pytest.raises(
        NotHere, match=r"version 7 came through Redis with checksum .* announced .*: it is put ther"
    ):
        generator.fetch()
    assert generator.ask() == (7, content_of(7))


def test_a_version_that_is_replaced_in_the_middle_of_a_read_is_begun_anew_with_the_newer(
    learner: LearnersMachine, generator: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner.publish(7)
    generator.ask()
    asks = itertools.count()
    ask = generator.weights._ask

    def replace_after_two_chunks(held: int) -> None:
        ask(held)
        if next(asks) == 2:
            monkeypatch.setattr(relay_module, "SERVE_S", 0.0)  # it takes no more than its time
            learner.publish(8)
            learner.relay.look()
            assert learner.chunks() == all_chunks(8)

    monkeypatch.setattr(generator.weights, "_ask", replace_after_two_chunks)
    with pytest.raises(NotHere, match="version 7 was replaced while it was read"):
        generator.fetch()
    assert generator.ask() == (8, content_of(8))


def test_a_version_stays_until_all_who_ask_have_it_and_two_are_never_there(
    learner: LearnersMachine, generator: Asking
) -> None:
    slow = Asking(learner, "slow")
    learner.publish(7)
    for asking in (generator, slow):
        asking.ask()
    generator.load(7)
    for version in (8, 9):
        learner.publish(version)
        slow.fetch()  # still at it
        learner.relay.look()
        assert learner.chunks() == all_chunks(7), "the slow one has not said that it holds it"
    with pytest.raises(NotHere, match="in the place of version 7"):
        generator.fetch()
    slow.load(7)
    assert generator.ask() == (9, content_of(9))
    assert learner.chunks() == all_chunks(9)
    assert slow.ask() == (9, content_of(9))
    slow.weights.close()


def test_what_is_too_large_is_refused_with_both_numbers_and_never_put_there(learner: LearnersMachine) -> None:
    learner.publish(7)
    both = f"{SIZE} bytes, and learner.weights.redis_max_bytes={SIZE - 1} "
    asking = Asking(learner, most_bytes=SIZE - 1)
    with pytest.raises(TooLarge, match=both):
        asking.fetch()
    assert weight_chunks.refusal(SIZE, SIZE) == ""
    for count in range(2):  # whoever asks all the same, the learner does not do it
        weight_chunks.ask(learner.link.client, learner.keys, "g", held=-1, count=count)
        section = learner.relay._run.learner.weights.model_copy(update={"redis_max_bytes": SIZE - 1})
        learner.relay._run = make_run(learner.folder, learner={"weights": section.model_dump()})
        learner.relay.look()
    manifest = weight_chunks.read_manifest(learner.link.client, learner.keys)
    assert manifest is not None
    assert both in manifest.trouble
    assert learner.chunks() == set()


@pytest.fixture
def room(link: RedisLink) -> Iterator[Callable[[int], None]]:
    """Sets how many bytes Redis has left."""

    def leave(count: int) -> None:
        info: Any = link.client.info("memory")
        link.client.config_set("maxmemory", info["used_memory"] + count)

    yield leave
    link.client.config_set("maxmemory", 0)


def test_where_redis_has_no_room_the_generator_says_what_it_waits_for_and_gets_them_once_it_has(
    learner: LearnersMachine, generator: Asking, room: Callable[[int], None]
) -> None:
    learner.publish(7)
    room(100_000)  # less than a fifth of all that it holds: the groups need that
    for _ in range(3):
        with suppress(NotHere):
            generator.fetch()
        learner.relay.look()
    with pytest.raises(
        NotHere, match=r"Redis has no room for them: maxmemory is \d+ MiB, .* they need \d+ MiB"
    ):
        generator.fetch()
    assert learner.chunks() == set()
    learner.link.client.config_set("maxmemory", 0)
    assert generator.ask() == (7, content_of(7))


def test_a_redis_that_is_full_is_a_warning_of_the_relay_and_a_reason_for_the_generator(
    learner: LearnersMachine,
    generator: Asking,
    room: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    learner.publish(7)
    with suppress(NotHere):
        generator.fetch()
    learner.relay.look()
    with suppress(NotHere):
        generator.fetch()
    monkeypatch.setattr(learner.relay, "_lack_of_room", lambda _: "")  # it is full a moment later
    room(-1000)
    learner.relay.start()
    wait_until(lambda: "weights_not_relayed" in caplog.text)
    learner.relay.stop()
    assert "reason=Redis is full" in caplog.text
    room(-20_000)
    with pytest.raises(NotHere, match=r"Redis does not answer as it should: .*maxmemory"):
        generator.fetch()


def test_the_learner_waits_neither_for_generators_nor_for_a_redis_that_does_not_answer(
    run: Run, link: RedisLink, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "END_S", 0.05)
    owner = RunOwner(link, keys)
    owner.claim(0)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        closing(RedisLink(f"redis://127.0.0.1:{silent.getsockname()[1]}", outage_s=1)) as nobody,
    ):
        relay = Relay(run, nobody, keys, fence=lambda: owner.fence, mean_bytes=lambda: 0.0)
        publisher = Publisher(owner, FilesystemTransport(run, relay))
        relay.start()
        started = time.monotonic()
        for version in range(20):
            publisher.publish(FilePolicy(), version)
        relay.stop()
        assert time.monotonic() - started < 5.0  # the relay's connection alone has 30


def test_a_learner_that_has_lost_the_run_puts_nothing_there(
    learner: LearnersMachine, generator: Asking
) -> None:
    learner.publish(7)
    RunOwner(learner.link, learner.keys).claim(0)
    for _ in range(3):
        with pytest.raises(NotHere, match="waiting for the learner to put them into Redis"):
            generator.fetch()
        learner.relay.look()


def test_what_killed_generators_left_on_the_disk_is_removed_and_a_living_ones_is_not(
    learner: LearnersMachine, generator: Asking, temporary: Path
) -> None:
    learner.publish(7)
    generator.ask()
    (living,) = temporary.iterdir()
    for name, file in (("dead", "lock"), ("new", "lock.new")):
        folder = temporary / f"{redis_fetch.PREFIX}{name}"
        folder.mkdir()
        (folder / file).touch()
    other = Asking(learner, "other")
    other.ask()
    assert {path.name for path in temporary.iterdir()} - {other.weights._folder.path.name} == {  # type: ignore[union-attr]
        living.name,
        f"{redis_fetch.PREFIX}new",
    }
    other.weights.close()


def test_a_disk_without_room_ends_the_generator_with_what_to_do(
    learner: LearnersMachine, generator: Asking, temporary: Path
) -> None:
    learner.publish(7)
    generator.ask()
    (folder,) = temporary.iterdir()
    (folder / "v000007.safetensors").unlink()
    (folder / "v000007.safetensors").symlink_to("/dev/full")
    with pytest.raises(
        RunFailed, match=rf"No space left on device. Weights of {SIZE} bytes .* TMPDIR names another"
    ):
        generator.fetch()


@pytest.mark.parametrize(
    ("engine", "learner", "needs"),
    [
        (HfEngineConfig(), {}, "its config and tokenizer there"),
        (VllmEngineConfig(), {}, "its config and tokenizer there"),
        (VllmEngineConfig(), {"lora": {"rank": 8}}, "its config and tokenizer there"),
        (
            VllmEngineConfig(),
            {"lora": {"rank": 8, "publish": "adapter"}},
            "its config, tokenizer and weights there",
        ),
    ],
)
def test_a_model_that_is_a_folder_of_the_learners_machine_is_named_with_what_to_copy(
    engine: HfEngineConfig | VllmEngineConfig,
    learner: dict[str, Any],
    needs: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    run = make_engine_run(Path("my/own/model"), engine)
    run = run.model_copy(update={"learner": LearnerConfig.model_validate(learner)})
    with pytest.raises(RunFailed) as caught:
        build_engine(run)
    assert f"there is no folder {Path.cwd()}/my/own/model on {socket.gethostname()}" in str(caught.value)
    assert needs in str(caught.value)
