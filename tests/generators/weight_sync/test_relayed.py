"""Weights through the relay to generators that do not see the learner's folder, and adapters merged. Real Redis, real files."""

from __future__ import annotations

import asyncio
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from safetensors.torch import save_file
from torch import Tensor

from broker.connection import RedisLink
from broker.errors import RunFailed
from broker.keys import Keys
from broker.protocol.announcements import Announcements
from broker.protocol.run_owner import RunOwner
from broker.weight_exchange.bundles import Bundle, Manifest, WeightsRequest, refusal
from broker.weight_exchange.redis_exchange import EXPIRY_S, RedisExchange
from broker.weight_files import FILE, part_name
from config.generators import HfEngineConfig, VllmEngineConfig
from config.learner.training import LoraConfig
from config.run import ModelConfig
from generators.engines.build import build_engine
from generators.weight_sync import follower as weights
from generators.weight_sync import relayed
from generators.weight_sync.adapter import FOLDER, MergingReceiver, base_files, pairs_of
from generators.weight_sync.build import build_receiver
from generators.weight_sync.filesystem import FilesystemReceiver
from generators.weight_sync.follower import WeightFollower
from generators.weight_sync.receiver import NotHere, Received, TooLarge, WeightReceiver
from generators.weight_sync.relayed import RelayedReceiver
from learner.weight_sync import delta_chain
from learner.weight_sync import relay as relay_module
from learner.weight_sync.build import build_transport
from learner.weight_sync.publisher import Publisher
from learner.weight_sync.relay_transport import RelayTransport
from learner.weight_sync.transport import SavedWeights
from tests.support.byte_model import make_run as make_engine_run
from tests.support.chain import FilePolicy, TextWeights, make_run
from tests.support.published_weights import RecordingEngine
from tests.support.relayed_weights import CHUNK, ROOM, SIZE, Asking, LearnersMachine, content_of, parts_of
from tests.support.waiting import wait_until
from tests.support.weight_files import content_of as safetensors_of
from tests.support.weight_files import made_up

pytestmark = pytest.mark.process


@pytest.fixture
def learner(link: RedisLink, keys: Keys, tmp_path: Path) -> Iterator[LearnersMachine]:
    machine = LearnersMachine(link, keys, tmp_path, RedisExchange(link.client, keys))
    yield machine
    machine.relay.stop()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A generator says at once what it waits for: here nothing happens meanwhile."""
    monkeypatch.setattr(relayed, "QUIET_S", 0.0)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where generators put what they are given."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def join(learner: LearnersMachine) -> Iterator[Callable[[str], Asking]]:
    """Begin a generator of that name, which is ended with the test."""
    joined: list[Asking] = []

    def begin(name: str) -> Asking:
        joined.append(Asking(learner, name))
        return joined[-1]

    yield begin
    for asking in joined:
        asking.weights.close()


Join = Callable[[str], Asking]


@pytest.fixture
def generator(join: Join) -> Asking:
    return join("g")


def ask_once(asking: Asking) -> None:
    with suppress(NotHere):
        asking.fetch()


def ask_and_look(asking: Asking, times: int = 1) -> None:
    """It asks, and then the relay looks, so many times."""
    for _ in range(times):
        ask_once(asking)
        asking.learner.relay.look()


def kinds(chunks: set[str]) -> set[str]:
    return {chunk.partition("-")[0] for chunk in chunks}


def manifest_of(learner: LearnersMachine) -> Manifest:
    manifest = learner.exchange.read_manifest()
    assert manifest is not None
    return manifest


Loaded = list[tuple[int, bytes]]  # what an engine was given, by version


async def follow(
    link: RedisLink, keys: Keys, receiver: WeightReceiver, versions: int, publish: Callable[[int], object]
) -> Loaded:
    """Return what a follower gives its engine while versions are published one after the other."""
    loaded: Loaded = []
    engine = RecordingEngine(lambda file, version: loaded.append((version, file.read_bytes())))
    follower = WeightFollower(Announcements(link, keys), engine, receiver)
    task = asyncio.create_task(follower.follow())
    for version in range(versions):
        await asyncio.to_thread(publish, version)
        await asyncio.wait_for(follower.at_least(version), 10)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    receiver.close()
    return loaded


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "ASK_S", 0.02)
    monkeypatch.setattr(relay_module, "LOOK_S", 0.02)


@pytest.mark.usefixtures("hurried")
def test_a_generator_that_sees_no_folder_follows_through_redis_and_leaves_nothing_behind(
    learner: LearnersMachine, temporary: Path, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = FilesystemReceiver(RelayedReceiver(learner.exchange, "g", most_bytes=ROOM))
    learner.relay.start()
    loaded = asyncio.run(follow(learner.link, learner.keys, receiver, 3, learner.publish))
    assert loaded == [(version, content_of(version)) for version in range(3)]
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "waiting for the learner to put them into Redis" in said  # once, and not at each version
    learner.relay.stop()
    assert (learner.chunks(), list(temporary.iterdir())) == (set(), [])


class TensorWeights(TextWeights):
    """Gathered weights that have a delta from one version to the next."""

    def save_weights(self, folder: Path) -> SavedWeights:
        (folder / FILE).write_bytes(content_of(int(self.text)))
        return SavedWeights.of(folder)


class TensorPolicy(FilePolicy):
    def gather_weights(self) -> TensorWeights:
        return TensorWeights(str(self.steps))


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("place", ["Redis", "a folder"])
def test_a_learner_of_the_relay_alone_is_followed_on_its_own_machine(
    link: RedisLink, keys: Keys, tmp_path: Path, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    section = {"type": "relay"} | ({"directory": tmp_path / "shared"} if place == "a folder" else {})
    run = make_run(tmp_path, learner={"weights": section})
    owner = RunOwner(link, keys)
    owner.claim(0)
    caplog.set_level("INFO")
    transport = build_transport(run, link, keys, fence=lambda: owner.fence, mean_bytes=lambda: 0.0)
    assert isinstance(transport, RelayTransport)
    publisher, policy = Publisher(owner, transport), TensorPolicy()

    def publish(version: int) -> None:
        policy.steps = version
        publisher.publish(policy, version)

    transport.start()
    loaded = asyncio.run(follow(link, keys, build_receiver(run, link, keys, "g"), 4, publish))
    transport.close()
    assert loaded == [(version, content_of(version)) for version in range(4)]
    assert [caplog.text.count(word) for word in ("weights_anchored", "weights_encoded")] == [1, 3]
    left = [path.name for path in tmp_path.glob("shared/*/*/*")]
    assert left == (["g.json"] if place == "a folder" else [])


@pytest.mark.parametrize("parts", [1, 3])
def test_a_generator_is_given_full_weights_once_and_deltas_from_then_on_as_the_files_that_they_were(
    learner: LearnersMachine, generator: Asking, parts: int
) -> None:
    learner.parts = parts
    for version in range(4):
        learner.publish(version)
        assert generator.follow(version) == ({"full"} if version == 0 else {"delta"})
        folder = f"v{version:06d}-{learner.announced[version].checksum[-8:]}"
        assert [name for name in generator.files if name != "lock"] == [folder]
        held = generator.weights._held
        assert held is not None
        assert [file.name for file in held.files] == [part_name(number, parts) for number in range(parts)]
        assert [file.read_bytes() for file in held.files] == parts_of(version, parts)


def test_who_missed_versions_is_given_their_chain_or_full_weights(
    learner: LearnersMachine, generator: Asking, join: Join
) -> None:
    fast = join("fast")
    learner.publish(0)
    for asking in (generator, fast):
        asking.follow(0)
    for version in (1, 2, 3, 4):
        learner.publish(version)
        assert fast.follow(version) == {"delta"}
    assert generator.follow(4) == {"delta"}
    for version in range(5, 10):  # one more than `anchor_every`
        learner.publish(version)
        fast.follow(version)
    assert generator.follow(9) == {"full"}


def test_who_joins_while_others_follow_reads_a_base_version_and_the_links_from_it(
    learner: LearnersMachine, generator: Asking, join: Join
) -> None:
    learner.publish(0)
    generator.follow(0)
    learner.publish(1)
    late = join("late")
    ask_and_look(late)
    ask_once(late)  # begins with version 1 ...
    assert late.weights._parts
    generator.follow(1)
    learner.publish(2)
    assert generator.follow(2) == {"delta"}
    assert late.follow(2) == {"full", "delta"}  # ... and goes on from there


def test_weights_larger_than_the_room_pass_for_many_at_once(learner: LearnersMachine, join: Join) -> None:
    assert SIZE > ROOM
    learner.publish(7)
    waiting = dict.fromkeys([join(f"g{number}") for number in range(4)], b"")
    for looks in range(100):
        for number, asking in enumerate(waiting):
            if not waiting[asking] and looks >= 2 * number:  # each begins when others have read a part
                with suppress(NotHere):
                    waiting[asking] = asking.fetch()[1]
        learner.relay.look()
        assert learner.bytes_in_redis() <= ROOM
    assert set(waiting.values()) == {content_of(7)}


def test_slow_readers_find_their_base_version(
    learner: LearnersMachine, generator: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner.publish(0)
    ask_and_look(generator)
    ask_once(generator)
    begun = set(generator.weights._parts)
    with monkeypatch.context() as patch:
        patch.setattr(relay_module, "SILENT_S", 0.0)  # longer than that over one chunk
        learner.relay.look()
    assert learner.chunks() == set()
    learner.publish(1)
    learner.relay.look()
    assert {bundle.name for bundle in learner.relay._chain.manifest().bundles} >= begun
    assert generator.follow(1) == {"full", "delta"}


def test_an_old_base_version_keeps_nobody_from_a_newer_one(
    learner: LearnersMachine, generator: Asking, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "CHUNK_S", 0.0)
    learner.publish(0)
    generator.follow(0)
    learner.relay.look()
    slow = join("slow")
    ask_and_look(slow, 2)  # begins with version 0
    for version in range(1, 7):
        learner.publish(version)
        generator.follow(version)
    assert generator.weights._held is not None
    generator.weights._held.files[0].write_bytes(b"damaged")
    learner.publish(7)
    assert generator.follow(7) == {"delta", "full"}  # the delta came to nothing
    assert slow.follow(7) == {"full"}


def test_room_for_one_chunk_is_given_one_at_a_time_and_deltas_go_before_unread_full_weights(
    learner: LearnersMachine, generator: Asking, join: Join
) -> None:
    most, room = 2 * CHUNK - 1, learner.relay._lack_of_room
    learner.relay._lack_of_room = lambda more: "" if learner.bytes_in_redis() + more <= most else "full"
    learner.publish(0)
    ask_and_look(generator)
    assert len(learner.chunks()) == 1
    assert generator.follow(0) == {"full"}
    learner.relay._lack_of_room = room
    learner.relay.look()
    ask_and_look(join("slow"))
    assert (kinds(learner.chunks()), len(learner.chunks())) == ({"full"}, ROOM // CHUNK)
    learner.publish(1)
    assert generator.follow(1) == {"delta"}


def test_a_generator_that_dies_in_the_middle_holds_nobody_up_and_the_last_leaves_nothing(
    learner: LearnersMachine, generator: Asking, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner.publish(7)
    learner.relay.look()
    assert learner.chunks() == set(), "before somebody asks"
    assert generator.follow(7) == {"full"}
    learner.relay.look()
    assert learner.chunks() == set(), "nobody lacks anything"
    ask_and_look(join("dead"), 2)  # has read the first window, and lacks the second
    assert len(learner.chunks()) == ROOM // CHUNK
    for key in learner.chunks():
        ttl: Any = learner.link.client.ttl(learner.keys(f"weights:{key}"))
        assert 0 < ttl <= EXPIRY_S
    monkeypatch.setattr(relay_module, "CHUNK_S", 0.0)  # it has had its time
    assert join("late").follow(7) == {"full"}
    monkeypatch.setattr(relay_module, "SILENT_S", 0.0)
    learner.relay.look()
    assert (learner.chunks(), learner.exchange.read_manifest()) == (set(), None)


# What becomes of the first chunks' values; None: the chunk is gone.
DAMAGE: dict[str, Callable[[bytes, bytes], tuple[bytes | None, bytes]]] = {
    "bit flipped": lambda one, other: (one[: len(one) // 2] + bytes([one[len(one) // 2] ^ 1]) + one[len(one) // 2 + 1 :], other),
    "missing": lambda one, other: (None, other),
    "repeated": lambda one, other: (one, one),
    "swapped": lambda one, other: (other, one),
    "cut off": lambda one, other: (one[:-1], other),
}  # fmt: skip


@pytest.mark.prove(
    cases=("repeated-full", "swapped-full", "cut off-full", "bit flipped-delta", "missing-delta")
)
@pytest.mark.parametrize("kind", ["full", "delta"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_chunk_is_put_there_again(
    learner: LearnersMachine, generator: Asking, damage: str, kind: str
) -> None:
    learner.relay._chain._chunk_bytes = 200 if kind == "delta" else CHUNK  # several chunks of either
    learner.publish(0)
    if kind == "delta":
        generator.follow(0)
        learner.publish(1)
    ask_and_look(generator)
    names = sorted(learner.chunks())
    assert kinds(set(names)) == {kind}
    client, places = learner.link.client, [learner.keys(f"weights:{name}") for name in names[:2]]
    values: Any = client.mget(places)
    for place, value in zip(places, DAMAGE[damage](*values), strict=True):
        client.delete(place) if value is None else client.set(place, value)
    with pytest.raises(NotHere, match=r"waiting for \d+ more chunks of version"):
        generator.fetch()
    assert generator.follow(max(learner.announced)) == {kind}


def test_weights_of_another_checksum_are_never_given(
    learner: LearnersMachine, generator: Asking, caplog: pytest.LogCaptureFixture
) -> None:
    file = Path(learner.publish(0).path) / FILE
    right = file.read_bytes()
    file.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))
    with pytest.raises(AssertionError):  # however often it asks
        generator.ask()
    assert not [name for name in generator.files if name.startswith("v0")]
    file.write_bytes(right)
    assert generator.follow(0) == {"full"}
    held = generator.weights._held
    assert held is not None
    content = bytearray(held.files[0].read_bytes())
    content[-100] ^= 1  # a bit of the disk has turned
    held.files[0].write_bytes(content)
    learner.publish(1)
    ask_and_look(generator)
    said = r"version 1 is not what was announced: 1 of 8 tensors .* Waiting for its full"
    with pytest.raises(NotHere, match=said):
        generator.fetch()
    assert "weights_differ version=1 reason=1 of 8 tensors have another checksum" in caplog.text
    assert generator.follow(1) == {"full"}
    learner.publish(2)
    assert generator.follow(2) == {"delta"}


def test_weights_without_a_delta_travel_in_full(learner: LearnersMachine, generator: Asking) -> None:
    """Files of another layout, of no layout, and ones in which everything has changed."""
    noise = [np.random.default_rng(seed).integers(0, 256, 999, dtype=np.uint8) for seed in (3, 4)]
    without_norm = {name: one for name, one in made_up(1).items() if name != "norm"}
    contents = [content_of(0), safetensors_of(without_norm), b"weights 2"]
    contents += [safetensors_of({"noise": ("U8", one)}) for one in noise]
    for version, content in enumerate(contents):
        learner.publish(version, content)
        assert generator.ask() == (version, content)
        generator.load(version)
        manifest = manifest_of(learner)
        assert (manifest.deltas, manifest.anchor is not None) == ((), True)


@pytest.mark.parametrize("is_same", [True, False])
def test_a_learner_started_again_goes_on_with_deltas_of_the_same_weights(
    learner: LearnersMachine, generator: Asking, *, is_same: bool
) -> None:
    for version in (0, 1):
        learner.publish(version)
        generator.follow(version)
    learner.relay.stop()
    learner.start_again()
    learner.publish(1, None if is_same else safetensors_of(made_up(9)))
    learner.relay.look()
    learner.publish(2)
    assert generator.follow(2) == {"delta" if is_same else "full"}


@pytest.mark.parametrize("forgets", ["*weights*", "*weights_chunks", "*weights:*"])
def test_a_loss_or_garbage_costs_time(learner: LearnersMachine, generator: Asking, forgets: str) -> None:
    learner.publish(0)
    ask_and_look(generator, 2)
    client: Any = learner.link.client
    gone = list(client.scan_iter(match=forgets))
    assert gone
    client.delete(*gone)
    for garbage in (b"", b"{", b"[]", b"\xff", b'{"version": 1}', b'{"count": "x"}', b"null"):
        client.set(learner.keys("weights_chunks"), garbage)
        client.hset(learner.keys("weights_wanted"), "stranger", garbage)
        assert learner.exchange.read_manifest() is None
        assert "stranger" not in learner.exchange.requests()
    assert generator.follow(0) == {"full"}


def test_a_relay_skips_versions_and_no_other_weights(learner: LearnersMachine, generator: Asking) -> None:
    learner.publish(0)
    generator.follow(0)
    for version in range(1, 6):  # the relay does not get round to looking
        learner.publish(version)
    assert generator.follow(5) == {"delta"}
    assert [delta.name.rpartition("-")[0] for delta in manifest_of(learner).deltas] == ["delta-0-5"]
    learner.publish(6)
    ask_and_look(generator)
    right = learner.announced[5]
    learner.announced[5] = replace(right, checksum="0" * 32)
    with pytest.raises(NotHere, match="in the place of version 6"):
        generator.fetch()
    learner.announced[5] = right
    assert generator.follow(6) == {"delta"}


def test_versions_outlive_their_folders(learner: LearnersMachine, generator: Asking) -> None:
    learner.publish(0)
    ask_and_look(generator)
    (learner.folder / "v0" / FILE).unlink()
    learner.publish(1)
    learner.relay._chain.take_offered()
    (learner.folder / "v1" / FILE).unlink()
    assert generator.follow(1) == {"full", "delta"}


def test_a_relay_goes_on_from_what_a_lone_generator_holds_however_many_versions_it_skips(
    learner: LearnersMachine, generator: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner.publish(0)
    generator.follow(0)
    with monkeypatch.context() as patch:
        patch.setattr(relay_module, "SILENT_S", 0.0)  # its engine takes long
        for version in range(1, 4):
            learner.relay.look()
            learner.publish(version)
        learner.relay.look()
    assert generator.follow(3) == {"delta"}


def test_files_of_versions_are_let_go_when_nothing_needs_them(
    learner: LearnersMachine, generator: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept() -> tuple[list[int], int]:
        """Versions whose files are open, and the number of deltas on the disk."""
        deltas = learner.folder.glob(f"{delta_chain.PREFIX}*/delta*")
        return sorted(version.version for version in learner.relay._chain._open), len(list(deltas))

    for version in range(4):
        learner.publish(version)
        generator.follow(version)
    assert kept() == ([2, 3], 3)
    monkeypatch.setattr(relay_module, "SILENT_S", 0.0)
    monkeypatch.setattr(relay_module, "LATELY_S", 0.0)
    for version in (4, 5):
        learner.publish(version)
        learner.relay.look()
    assert kept() == ([4, 5], 0)


def test_where_none_may_pass_the_generator_is_told_so(learner: LearnersMachine) -> None:
    learner.publish(7)
    said = f"they have {SIZE} bytes, and learner.weights.redis_max_bytes=0 lets none through Redis"
    with pytest.raises(TooLarge, match=said):
        Asking(learner, most_bytes=0).fetch()
    assert refusal(SIZE, 1) == ""
    learner.relay.stop()
    learner.start_again(most_bytes=0)
    learner.relay.offer(learner.announced[7])
    for count in range(2):  # whoever asks all the same, the learner does not do it
        learner.exchange.ask("g", WeightsRequest(count=count, version=-1, held=""))
        learner.relay.look()
    assert said in manifest_of(learner).trouble
    assert learner.chunks() == set()


def test_where_redis_has_no_room_the_generator_says_what_it_waits_for_and_gets_them_once_it_has(
    learner: LearnersMachine,
    generator: Asking,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client: Any = learner.link.client
    learner.publish(7)
    used = client.info("memory")["used_memory"]
    try:
        client.config_set("maxmemory", used + 100_000)  # leaves less than a fifth of it: the groups need that
        ask_and_look(generator, 3)
        said = r"Redis has no room for them: maxmemory is \d+ MiB, .* they need \d+ MiB"
        with pytest.raises(NotHere, match=said):
            generator.fetch()
        assert learner.chunks() == set()
        client.config_set("maxmemory", 0)
        generator.follow(7)
        learner.publish(8)
        ask_once(generator)
        with monkeypatch.context() as patch:
            patch.setattr(learner.relay, "_lack_of_room", lambda _: "")  # it is full a moment later
            client.config_set("maxmemory", 1)
            learner.relay.start()
            wait_until(lambda: "reason=Redis is full" in caplog.text)
            learner.relay.stop()
        with pytest.raises(NotHere, match=r"Redis is full: .*maxmemory"):
            generator.fetch()
    finally:
        client.config_set("maxmemory", 0)
    learner.start_again()
    learner.publish(8)
    generator.follow(8)


def test_the_learner_waits_neither_for_generators_nor_for_a_redis_that_does_not_answer(
    tmp_path: Path, link: RedisLink, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "END_S", 0.05)
    owner = RunOwner(link, keys)
    owner.claim(0)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        closing(RedisLink(f"redis://127.0.0.1:{silent.getsockname()[1]}", outage_s=1)) as nobody,
    ):
        transport = build_transport(
            make_run(tmp_path), nobody, keys, fence=lambda: owner.fence, mean_bytes=lambda: 0.0
        )
        publisher = Publisher(owner, transport)
        transport.start()
        started = time.monotonic()
        for version in range(20):
            publisher.publish(FilePolicy(), version)
        transport.close()
        assert time.monotonic() - started < 5.0  # the relay's connection alone has 30


def test_who_has_lost_the_run_puts_nothing_there(learner: LearnersMachine, generator: Asking) -> None:
    learner.publish(7)
    RunOwner(learner.link, learner.keys).claim(0)
    for _ in range(3):
        with pytest.raises(NotHere, match="waiting for the learner to put them into Redis"):
            generator.fetch()
        learner.relay.look()


def test_what_killed_generators_left_on_the_disk_is_removed_and_a_living_ones_is_not(
    learner: LearnersMachine, generator: Asking, join: Join, temporary: Path
) -> None:
    learner.publish(7)
    generator.ask()
    (living,) = temporary.iterdir()
    for name, file in (("dead", "lock"), ("new", "lock.new")):
        folder = temporary / f"{relayed.PREFIX}{name}"
        folder.mkdir()
        (folder / file).touch()
    other = join("other")
    other.ask()
    assert other.weights._folder is not None
    own = other.weights._folder.path
    assert {*temporary.iterdir()} == {living, own, temporary / f"{relayed.PREFIX}new"}


def test_a_full_disk_ends_the_generator(learner: LearnersMachine, generator: Asking, temporary: Path) -> None:
    learner.publish(7)
    ask_and_look(generator)
    ask_once(generator)
    for part in temporary.glob(f"{relayed.PREFIX}*/*.part"):
        part.unlink()
        part.symlink_to("/dev/full")
    learner.relay.look()
    said = rf"No space left on device. Weights of {SIZE} bytes .* TMPDIR names another"
    with pytest.raises(RunFailed, match=said):
        generator.fetch()


def test_a_generator_that_ends_in_the_middle_of_a_read_says_nothing_of_disks(
    learner: LearnersMachine, generator: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner.publish(7)
    ask_and_look(generator)
    keep = generator.weights._keep

    def close_and_keep(bundle: Bundle, chunk: int, data: bytes) -> None:
        generator.weights._own_folder()
        generator.weights.close()
        keep(bundle, chunk, data)

    monkeypatch.setattr(generator.weights, "_keep", close_and_keep)
    with pytest.raises(NotHere, match="this generator ends"):
        generator.fetch()


@pytest.mark.parametrize(
    ("engine", "needs"),
    [
        (HfEngineConfig(), "its config and tokenizer there"),
        (VllmEngineConfig(), "its config and tokenizer there"),
        (VllmEngineConfig(load_format="safetensors"), "its config, tokenizer and weights there"),
    ],
)
def test_a_model_that_is_a_folder_of_the_learners_machine_is_named_with_what_to_copy(
    engine: HfEngineConfig | VllmEngineConfig, needs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunFailed) as caught:
        build_engine(make_engine_run(Path("my/own/model"), engine))
    assert f"there is no folder {Path.cwd()}/my/own/model on {socket.gethostname()}" in str(caught.value)
    assert needs in str(caught.value)


LOW, HIGH = "base_model.model.layer.lora_A.weight", "base_model.model.layer.lora_B.weight"
LORA = LoraConfig(rank=2, alpha=4, publish="adapter")


class Brings:
    is_slow = True

    def __init__(self, file: Path) -> None:
        self._file = file

    def receive(self, announced: Any, *, held: int) -> Received:
        return Received(version=3, files=(self._file,))

    def loaded(self, received: Received) -> None:
        raise AssertionError("nothing was loaded")

    def close(self) -> None: ...


def made(tmp_path: Path, adapter: dict[str, Tensor], *, dtype: str = "float32") -> MergingReceiver:
    model = tmp_path / "model"
    model.mkdir()
    save_file({"layer.weight": torch.ones(3, 4, dtype=getattr(torch, dtype))}, model / "one.safetensors")
    save_file({"other.weight": torch.full((2,), 7.0)}, model / "two.safetensors")
    save_file(adapter, tmp_path / "adapter.safetensors")
    section = ModelConfig.model_validate({"path": str(model), "dtype": dtype})
    return MergingReceiver(Brings(tmp_path / "adapter.safetensors"), section, LORA)


def pair(rows: int = 3, columns: int = 4) -> dict[str, Tensor]:
    return {LOW: torch.full((2, columns), 0.5), HIGH: torch.full((rows, 2), 0.25)}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_product_is_added_in_float32_and_the_rest_stays(tmp_path: Path, dtype: str) -> None:
    from safetensors.torch import load_file

    receiver = made(tmp_path, pair(), dtype=dtype)
    found = load_file(receiver.receive([], held=0).files[0])
    receiver.close()
    assert found["layer.weight"].tolist() == [[1 + 2 * 0.25] * 4] * 3  # alpha / rank = 2
    assert found["other.weight"].tolist() == [7.0, 7.0]
    assert {tensor.dtype for tensor in found.values()} == {getattr(torch, dtype)}
    assert receiver.is_slow


@pytest.mark.parametrize(
    ("adapter", "why"),
    [
        (pair(rows=5), "a weight of 5 x 4, and that of .* is \\(3, 4\\)"),
        ({name.replace("layer", "of.9"): one for name, one in pair().items()}, "of.9.weight and 0 more"),
        ({LOW: torch.ones(2, 4)}, f"{LOW} without {HIGH}"),
        ({HIGH: torch.ones(3, 2)}, "1 tensors of an adapter, of which 0 are pairs"),
        ({"layer.weight": torch.ones(3, 4)}, "layer.weight, which is no tensor of an adapter"),
        ({}, r"adapter\.safetensors can't be read"),  # no safetensors file
    ],
)
def test_what_is_no_adapter_of_it_is_named(tmp_path: Path, adapter: dict[str, Tensor], why: str) -> None:
    with closing(made(tmp_path, adapter)) as receiver:
        if not adapter:
            (tmp_path / "adapter.safetensors").write_bytes(b"nonsense")
        with pytest.raises(RunFailed, match=why):
            receiver.receive([], held=0)


def test_a_model_without_safetensors_is_refused_with_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"no safetensors here: .* Set learner.lora.publish=merged"):
        base_files(ModelConfig(path=str(tmp_path)))
    assert pairs_of({}) == {}


def test_what_a_killed_generator_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    dead = temporary / f"{FOLDER}dead"
    dead.mkdir(parents=True)
    (dead / "lock").touch()
    (dead / "v000003.safetensors").touch()
    receiver = made(tmp_path, pair())
    living = receiver.receive([], held=0).files[0].parent
    assert list(temporary.iterdir()) == [living]
    receiver.close()
    assert not any(temporary.iterdir())
