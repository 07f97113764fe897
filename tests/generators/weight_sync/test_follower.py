"""The follower gives the engine the newest weights and nothing older. Real Redis, real files, no model."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from broker.checksums import weights_checksum
from broker.connection import RedisLink
from broker.errors import RunFailed
from broker.keys import Keys
from broker.messages import Announcement
from broker.protocol.announcements import Announcements
from generators.engine import NO_VERSION
from generators.engines.scripted import ScriptedEngine
from generators.weight_sync import filesystem
from generators.weight_sync import follower as weights
from generators.weight_sync.filesystem import FilesystemReceiver
from generators.weight_sync.follower import WeightFollower
from generators.weight_sync.receiver import NotHere, Received, WeightReceiver
from tests.support.in_loop import in_loop
from tests.support.published_weights import Publisher, RecordingEngine
from tests.support.waiting import wait_in_loop

pytestmark = pytest.mark.process


@pytest.fixture
def publisher(link: RedisLink, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publisher:
    for name in ("BLOCK_S", "ASK_S"):
        monkeypatch.setattr(weights, name, 0.05)
    return Publisher(link, keys, tmp_path)


Patch = pytest.MonkeyPatch


def follower_of(
    publisher: Publisher, engine: RecordingEngine, receiver: WeightReceiver | None = None, **options: Any
) -> WeightFollower:
    announced = Announcements(publisher.link, publisher.keys)
    return WeightFollower(announced, engine, receiver or FilesystemReceiver(), **options)


async def reaches(follower: WeightFollower, version: int) -> None:
    await asyncio.wait_for(follower.at_least(version), 10)


@asynccontextmanager
async def following(
    publisher: Publisher, engine: RecordingEngine, receiver: WeightReceiver | None = None
) -> AsyncIterator[WeightFollower]:
    follower = follower_of(publisher, engine, receiver)
    task = asyncio.create_task(follower.follow())
    try:
        yield follower
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@in_loop
async def test_one_who_joins_late_loads_the_newest_and_who_waits_wakes_with_a_newer(
    publisher: Publisher,
) -> None:
    for version in (0, 1, 2):
        publisher.publish(version)
    async with following(publisher, engine := RecordingEngine()) as follower:
        waiting = [asyncio.create_task(follower.at_least(version)) for version in (2, 4, 7)]
        await asyncio.wait_for(waiting[0], 10)
        assert engine.loaded == [2]
        publisher.publish(5)  # 3 and 4 are never loaded
        await asyncio.wait_for(waiting[1], 10)
        assert engine.loaded == [2, 5]
        assert not waiting[2].done()
        waiting[2].cancel()


@in_loop
async def test_what_the_engine_holds_is_never_replaced_by_a_lower_version_and_each_is_hashed_once(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[Path] = []

    def recorded(files: Sequence[Path], *, like: str = "") -> str:
        hashed.extend(files)
        return weights_checksum(files, like=like)

    monkeypatch.setattr(filesystem, "weights_checksum", recorded)
    engine = RecordingEngine()
    await ScriptedEngine.load_weights(engine, [Path("held")], 5)
    publisher.publish(4)
    async with following(publisher, engine) as follower:
        await looked_again(follower)
        for version in (6, 7):
            publisher.publish(version)
            await reaches(follower, version)
        await looked_again(follower)
    assert engine.loaded == [6, 7]
    assert [file.parent.name for file in hashed] == ["6", "7"]


async def looked_again(follower: WeightFollower, times: int = 2) -> None:
    """Return when the follower has read the announcements `times` more."""
    seen = asyncio.Semaphore(0)
    loop = asyncio.get_running_loop()
    announced = follower._announced

    def counted() -> list[Announcement]:
        try:
            return announced()
        finally:
            loop.call_soon_threadsafe(seen.release)

    follower._announced = counted  # type: ignore[method-assign]
    for _ in range(times):
        await asyncio.wait_for(seen.acquire(), 10)


def damage(publisher: Publisher, how: str) -> None:
    if how == "wrong checksum":
        publisher.write(1)
        publisher.announce(1, checksum="c0ffee")
    elif how == "vanished file":
        publisher.announce(1)
    else:
        for version in (1, 2) if how == "junk behind two versions" else ():
            publisher.publish(version)
        client: Any = publisher.link.client
        client.xadd(publisher.keys("weights"), {"hello": "world"})
        client.xadd(publisher.keys("weights"), {"v": "1", "version": "one"})


@pytest.mark.parametrize(
    ("how", "held", "said"),
    [
        ("wrong checksum", NO_VERSION, "weights_unreadable .*announced c0ffee"),
        ("vanished file", NO_VERSION, "weights_unreadable .*No such file"),
        ("junk", NO_VERSION, "field 'path' is missing"),  # what the newest of them lacks
        ("junk behind two versions", 2, "field 'path' is missing"),
    ],
)
@in_loop
async def test_what_cant_be_read_is_passed_over_and_said_once(
    *,
    publisher: Publisher,
    how: str,
    held: int,
    said: str,
    monkeypatch: Patch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if how.startswith("junk"):
        monkeypatch.setattr(weights, "PATIENCE_S", 0.0)  # junk alone never uses it up
    damage(publisher, how)
    async with following(publisher, engine := RecordingEngine()) as follower:
        await looked_again(follower, times=3)
        assert engine.version == held
        publisher.publish(5)
        await reaches(follower, 5)
    assert engine.loaded == ([5] if held == NO_VERSION else [held, 5])
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert re.search(said, record.getMessage())


@in_loop
async def test_a_file_that_is_replaced_while_the_engine_opens_it_is_read_again(publisher: Publisher) -> None:
    def remove_the_first(file: Path, version: int) -> None:
        if version == 1:
            file.unlink()  # retention was faster
            publisher.publish(2)
            raise FileNotFoundError(file)

    publisher.publish(1)
    async with following(publisher, engine := RecordingEngine(remove_the_first)) as follower:
        await reaches(follower, 2)
    assert engine.loaded == [2]


class Arriving:
    """A receiver whose weights take longer than the follower's patience, a part at a time, each half of it."""

    is_slow = False

    def __init__(self, file: Path, parts: int, *, says_so: bool) -> None:
        self.file, self.missing, self.says_so = file, parts, says_so
        self.now = 100.0

    def receive(self, announced: Sequence[Announcement], *, held: int) -> Received:
        self.now += weights.RELAY_PATIENCE_S / 2
        if self.missing:
            self.missing -= 1
            raise NotHere(f"{self.missing} parts are missing", is_arriving=self.says_so)
        return Received(version=announced[0].version, files=(self.file,))

    def loaded(self, received: Received) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize("says_so", [True, False])
@in_loop
async def test_weights_that_arrive_part_by_part_may_take_longer_than_the_patience(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch, says_so: bool
) -> None:
    monkeypatch.setattr(weights, "ASK_S", 0.0)
    publisher.publish(1)
    receiver = Arriving(publisher.write(1), 10, says_so=says_so)
    follower = follower_of(publisher, RecordingEngine(), receiver, clock=lambda: receiver.now)
    task = asyncio.create_task(follower.follow())
    arrived = asyncio.create_task(follower.at_least(1))
    await asyncio.wait([task, arrived], timeout=10, return_when=asyncio.FIRST_COMPLETED)
    assert (arrived.done(), receiver.missing) == ((True, 0) if says_so else (False, 6))
    task.cancel()
    arrived.cancel()
    await asyncio.gather(task, arrived, return_exceptions=True)


@in_loop
async def test_weights_that_stay_unreadable_or_cant_be_loaded_end_it(publisher: Publisher) -> None:
    def refuse(_file: Path, _version: int) -> None:
        raise ValueError("shape [4, 8], expected [8, 8]")

    publisher.publish(0)
    with pytest.raises(ValueError, match="shape"):
        await follower_of(publisher, RecordingEngine(refuse)).follow()
    publisher.announce(1)
    looked_at = iter((100.0, 100.0 + weights.PATIENCE_S, 100.1 + weights.PATIENCE_S))
    engine = RecordingEngine()
    await ScriptedEngine.load_weights(engine, [Path("held")], 0)
    with pytest.raises(RunFailed, match=r"No such file .* must share learner\.weights\.directory"):
        await follower_of(publisher, engine, clock=lambda: next(looked_at)).follow()
    assert list(looked_at) == []


@in_loop
async def test_a_generator_rests_in_redis(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "BLOCK_S", 20.0)
    client: Any = publisher.link.client

    async def rests() -> None:
        await wait_in_loop(lambda: client.info("clients")["blocked_clients"] == 1)

    for version in range(20):
        publisher.publish(version)
    async with following(publisher, RecordingEngine()) as follower:
        await reaches(follower, 19)
        await rests()
        client.config_resetstat()
        publisher.publish(20)
        await reaches(follower, 20)
        await rests()
        calls = client.info("commandstats")
        assert calls["cmdstat_xread"]["calls"] <= 2
        assert calls["cmdstat_xrevrange"]["calls"] <= 3
    publisher.announce(21)  # ends the last wait


@in_loop
async def test_a_receiver_of_ones_own_brings_the_weights(publisher: Publisher) -> None:
    """The toy of this seam: weights out of a mapping, whatever path is announced."""

    class FromMapping:
        is_slow = False

        def __init__(self) -> None:
            self.noted: list[int] = []

        def receive(self, announced: Sequence[Announcement], *, held: int) -> Received:
            assert held == NO_VERSION
            return Received(version=announced[0].version, files=({7: Path("seven")}[announced[0].version],))

        def loaded(self, received: Received) -> None:
            self.noted.append(received.version)

        def close(self) -> None: ...

    given: list[tuple[Path, int]] = []
    engine = RecordingEngine(lambda file, version: given.append((file, version)))
    async with following(publisher, engine, receiver := FromMapping()) as follower:
        publisher.announce(7)
        await reaches(follower, 7)
    assert (given, receiver.noted) == ([(Path("seven"), 7)], [7])
