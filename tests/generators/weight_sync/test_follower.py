"""The follower gives the engine the newest weights and nothing older. Real Redis, real files, no model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
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
from generators.weight_sync.receiver import NotHere, Received
from tests.support.published_weights import Publisher, RecordingEngine

pytestmark = pytest.mark.process


@pytest.fixture
def publisher(link: RedisLink, keys: Keys, tmp_path: Path) -> Publisher:
    return Publisher(link, keys, tmp_path)


def make_follower(link: RedisLink, keys: Keys, engine: RecordingEngine) -> WeightFollower:
    return WeightFollower(Announcements(link, keys), engine, FilesystemReceiver())


@asynccontextmanager
async def following(link: RedisLink, keys: Keys, engine: RecordingEngine) -> AsyncIterator[WeightFollower]:
    """Return a follower at work."""
    follower = make_follower(link, keys, engine)
    task = asyncio.create_task(follower.follow())
    try:
        yield follower
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def test_one_who_joins_late_loads_the_newest_and_nothing_else(
    link: RedisLink, keys: Keys, publisher: Publisher
) -> None:
    async def body() -> None:
        engine = RecordingEngine()
        for version in (0, 1, 2):
            publisher.publish(version)
        async with following(link, keys, engine) as follower:
            await asyncio.wait_for(follower.at_least(2), 10)
            assert engine.loaded == [2]
            publisher.publish(3)
            await asyncio.wait_for(follower.at_least(3), 10)
        assert engine.loaded == [2, 3]

    asyncio.run(body())


def test_who_waits_for_a_version_wakes_with_a_newer_one_and_not_with_an_older(
    link: RedisLink, keys: Keys, publisher: Publisher
) -> None:
    async def body() -> None:
        async with following(link, keys, engine := RecordingEngine()) as follower:
            waiting = [asyncio.create_task(follower.at_least(version)) for version in (0, 2, 5)]
            publisher.publish(0)
            await asyncio.wait_for(waiting[0], 10)
            publisher.publish(3)  # 1 and 2 are never loaded
            await asyncio.wait_for(waiting[1], 10)
            assert engine.loaded == [0, 3]
            assert not waiting[2].done()
            waiting[2].cancel()

    asyncio.run(body())


def test_what_the_engine_holds_is_never_replaced_by_a_lower_version(
    link: RedisLink, keys: Keys, publisher: Publisher
) -> None:
    async def body() -> None:
        engine = RecordingEngine()
        await ScriptedEngine.load_weights(engine, [Path("held")], 5)
        publisher.publish(4)
        async with following(link, keys, engine) as follower:
            await looked_again(follower)
            publisher.publish(6)
            await asyncio.wait_for(follower.at_least(6), 10)
        assert engine.loaded == [6]

    asyncio.run(body())


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


def wrong_checksum(publisher: Publisher) -> None:
    publisher.write(1)
    publisher.announce(1, checksum="c0ffee")


def vanished_file(publisher: Publisher) -> None:
    publisher.announce(1)


@pytest.mark.parametrize(
    ("damage", "said"), [(wrong_checksum, "announced c0ffee"), (vanished_file, "No such file")]
)
def test_what_cant_be_read_is_passed_over_for_the_next_and_said_once(
    link: RedisLink,
    publisher: Publisher,
    damage: Callable[[Publisher], None],
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body() -> None:
        engine = RecordingEngine()
        damage(publisher)
        async with following(link, publisher.keys, engine) as follower:
            await looked_again(follower, times=3)
            assert engine.version == NO_VERSION
            publisher.publish(2)
            await asyncio.wait_for(follower.at_least(2), 10)
        assert engine.loaded == [2]

    asyncio.run(body())
    (warning,) = [
        record.getMessage() for record in caplog.records if "weights_unreadable" in record.getMessage()
    ]
    assert said in warning


@pytest.mark.parametrize("announced", [0, 2])
def test_junk_at_the_end_of_the_stream_hides_no_announcement_and_is_said_once(
    link: RedisLink,
    publisher: Publisher,
    announced: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body() -> None:
        engine = RecordingEngine()
        for version in range(1, announced + 1):
            publisher.publish(version)
        link.client.xadd(publisher.keys("weights"), {"hello": "world"})
        link.client.xadd(publisher.keys("weights"), {"v": "1", "version": "one"})
        async with following(link, publisher.keys, engine) as follower:
            await looked_again(follower, times=3)
            assert engine.loaded == ([announced] if announced else [])
            publisher.publish(5)
            await asyncio.wait_for(follower.at_least(5), 10)

    monkeypatch.setattr(weights, "PATIENCE_S", 0.0)  # junk alone never uses it up
    asyncio.run(body())
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "invalid literal" in warning  # what the newest of them lacks


def test_a_file_that_is_replaced_while_the_engine_opens_it_is_read_again(
    link: RedisLink, keys: Keys, publisher: Publisher
) -> None:
    def remove_the_first(file: Path, version: int) -> None:
        if version == 1:
            file.unlink()  # retention was faster
            publisher.publish(2)
            raise FileNotFoundError(file)

    async def body() -> None:
        engine = RecordingEngine(remove_the_first)
        publisher.publish(1)
        async with following(link, keys, engine) as follower:
            await asyncio.wait_for(follower.at_least(2), 10)
        assert engine.loaded == [2]

    asyncio.run(body())


def test_weights_that_stay_unreadable_end_the_following_with_what_to_do(
    link: RedisLink, keys: Keys, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "PATIENCE_S", 0.05)
    publisher.announce(1)
    with pytest.raises(RunFailed, match=r"No such file .* must share learner\.weights\.directory"):
        asyncio.run(make_follower(link, keys, RecordingEngine()).follow())


class Arriving:
    """A receiver whose weights take longer than the follower's patience, a part at a time."""

    is_slow = False

    def __init__(self, file: Path, parts: int, *, says_so: bool) -> None:
        self.file, self.missing, self.says_so = file, parts, says_so

    def receive(self, announced: Sequence[Announcement], *, held: int) -> Received:
        time.sleep(0.03)
        if self.missing:
            self.missing -= 1
            raise NotHere(f"{self.missing} parts are missing", is_arriving=self.says_so)
        return Received(version=announced[0].version, files=(self.file,))

    def loaded(self, received: Received) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize("says_so", [True, False])
def test_weights_that_arrive_part_by_part_may_take_longer_than_the_patience(
    link: RedisLink, keys: Keys, publisher: Publisher, monkeypatch: pytest.MonkeyPatch, says_so: bool
) -> None:
    monkeypatch.setattr(weights, "RELAY_PATIENCE_S", 0.15)
    monkeypatch.setattr(weights, "ASK_S", 0.01)
    publisher.publish(1)
    receiver = Arriving(publisher.write(1), 10, says_so=says_so)  # 0.4 s or more
    follower = WeightFollower(Announcements(link, keys), RecordingEngine(), receiver)

    async def body() -> None:
        task = asyncio.create_task(follower.follow())
        arrived = asyncio.create_task(follower.at_least(1))
        await asyncio.wait([task, arrived], timeout=10, return_when=asyncio.FIRST_COMPLETED)
        assert arrived.done() == says_so
        task.cancel()
        arrived.cancel()
        await asyncio.gather(task, arrived, return_exceptions=True)

    asyncio.run(body())


def test_an_engine_that_cant_load_ends_the_following(
    link: RedisLink, keys: Keys, publisher: Publisher
) -> None:
    def refuse(_file: Path, _version: int) -> None:
        raise ValueError("shape [4, 8], expected [8, 8]")

    publisher.publish(0)
    with pytest.raises(ValueError, match="shape"):
        asyncio.run(make_follower(link, keys, RecordingEngine(refuse)).follow())


def test_a_generator_at_rest_asks_redis_a_few_times_a_second_and_fetches_one_entry(
    link: RedisLink, keys: Keys, publisher: Publisher
) -> None:
    async def body() -> float:
        for version in range(20):
            publisher.publish(version)
        async with following(link, keys, RecordingEngine()) as follower:
            await asyncio.wait_for(follower.at_least(19), 10)
            link.client.config_resetstat()
            await asyncio.sleep(2.0)
            stats: Any = link.client.info("commandstats")
            calls = stats["cmdstat_xrevrange"]["calls"]
            published = time.monotonic()
            publisher.publish(20)
            await asyncio.wait_for(follower.at_least(20), 10)
            assert time.monotonic() - published < 5.0
        return float(calls)

    assert asyncio.run(body()) <= 10, "not every 50 ms"


def test_a_receiver_of_ones_own_brings_the_weights(link: RedisLink, keys: Keys, publisher: Publisher) -> None:
    """The toy of this seam: weights out of a mapping, whatever path is announced."""

    class FromMapping:
        is_slow = False

        def __init__(self) -> None:
            self.files = {7: Path("seven")}
            self.noted: list[int] = []

        def receive(self, announced: Sequence[Announcement], *, held: int) -> Received:
            assert held == NO_VERSION
            return Received(version=announced[0].version, files=(self.files[announced[0].version],))

        def loaded(self, received: Received) -> None:
            self.noted.append(received.version)

        def close(self) -> None:
            pass

    async def body() -> None:
        given: list[tuple[Path, int]] = []
        receiver = FromMapping()
        engine = RecordingEngine(lambda file, version: given.append((file, version)))
        follower = WeightFollower(Announcements(link, keys), engine, receiver)
        task = asyncio.create_task(follower.follow())
        publisher.announce(7)
        await asyncio.wait_for(follower.at_least(7), 10)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert (given, receiver.noted) == ([(Path("seven"), 7)], [7])

    asyncio.run(body())


def test_a_file_is_hashed_once_for_each_version(
    link: RedisLink, keys: Keys, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[Path] = []

    def recorded(files: Sequence[Path], *, like: str = "") -> str:
        hashed.extend(files)
        return weights_checksum(files, like=like)

    monkeypatch.setattr(filesystem, "weights_checksum", recorded)

    async def body() -> None:
        async with following(link, keys, RecordingEngine()) as follower:
            for version in range(3):
                publisher.publish(version)
                await asyncio.wait_for(follower.at_least(version), 10)
            await looked_again(follower)

    asyncio.run(body())
    assert [file.parent.name for file in hashed] == ["0", "1", "2"]
