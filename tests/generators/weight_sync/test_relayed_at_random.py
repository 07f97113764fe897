"""The relay and generators under random events: what is given is what was announced, and in the end all have it."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from broker.connection import RedisLink
from broker.keys import Keys
from broker.weight_exchange.exchange import Exchange
from broker.weight_exchange.folder_exchange import FolderExchange
from broker.weight_exchange.redis_exchange import RedisExchange
from generators.weight_sync import relayed
from generators.weight_sync.receiver import NotHere
from learner.weight_sync import relay as relay_module
from tests.support.relayed_weights import ROOM, Asking, LearnersMachine, content_of

pytestmark = [pytest.mark.process, pytest.mark.prove(after=2)]

# How often each happens, beside the others.
ACTIONS = {"look": 10, "ask": 30, "publish": 3, "join": 1, "die": 1, "forget": 1, "start_the_relay_again": 1}
ACTIONS |= {"lose_a_chunk": 2, "damage_a_chunk": 2, "damage_the_held_file": 1}


class Events:
    """One run of random events, and what holds after each of them."""

    def __init__(self, learner: LearnersMachine, seed: int) -> None:
        self.learner = learner
        self.chance = random.Random(seed)
        self.asking: list[Asking] = []
        self.ordinal = 0
        self.version = -1
        self.kinds: set[str] = set()
        self.publish()

    def happen(self) -> None:
        getattr(self, self.chance.choices(list(ACTIONS), list(ACTIONS.values()))[0])()
        if isinstance(self.learner.exchange, RedisExchange):
            assert self.learner.bytes_in_redis() <= ROOM

    def look(self) -> None:
        self.learner.relay.look()

    def ask(self) -> None:
        if self.asking:
            self.fetch(self.chance.choice(self.asking))

    def fetch(self, one: Asking) -> None:
        """Let it ask; what it is given is what was announced, and newer than what it holds."""
        with suppress(NotHere):
            version, content = one.fetch()
            assert content == content_of(version, self.learner.parts)
            assert version > one.held
            one.load(version)

    def publish(self) -> None:
        self.version += 1
        self.learner.publish(self.version)

    def join(self) -> None:
        if len(self.asking) < 4:
            self.ordinal += 1
            self.asking.append(Asking(self.learner, f"g{self.ordinal}"))

    def die(self) -> None:
        if self.asking:
            self.asking.pop(self.chance.randrange(len(self.asking))).weights.close()

    def lose_a_chunk(self) -> None:
        if there := self.there():
            self.learner.exchange.drop([self.chance.choice(there)])

    def damage_a_chunk(self) -> None:
        if there := self.there():
            chunk, other = self.chance.choice(there), self.chance.choice(there)
            right, value = (bytearray(self.learner.exchange.get(one) or b"") for one in (chunk, other))
            if 0 < len(value) <= len(right):
                flip = self.chance.choice([0, 1])  # 0: it is in another's place alone
                value[self.chance.randrange(len(value))] ^= flip
                self.learner.exchange.put(chunk, bytes(value))

    def damage_the_held_file(self) -> None:
        if self.asking and (held := self.chance.choice(self.asking).weights._held):
            file = self.chance.choice(held.files)
            content = bytearray(file.read_bytes())
            content[self.chance.randrange(len(content))] ^= 1
            file.write_bytes(content)

    def forget(self) -> None:
        self.learner.exchange.clear()

    def start_the_relay_again(self) -> None:
        self.learner.relay.stop()
        self.learner.start_again()
        self.learner.publish(self.version)

    def there(self) -> list[tuple[str, int]]:
        return sorted(self.learner.relay._there)

    def settle(self) -> None:
        """Nothing more goes wrong: all are given the newest version."""
        self.join()
        for _ in range(200):
            self.look()
            for one in self.asking:
                if one.held < self.version:
                    self.fetch(one)
        assert {one.held for one in self.asking} == {self.version}


@pytest.fixture(params=["Redis", "a folder"])
def learner(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    link: RedisLink,
    keys: Keys,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[LearnersMachine]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(relayed, "QUIET_S", 0.0)
    monkeypatch.setattr(relay_module, "SILENT_S", 0.2)  # who has died is forgotten soon
    monkeypatch.setattr(relay_module, "CHUNK_S", 0.05)
    exchange: Exchange = FolderExchange(tmp_path / "exchange")
    if request.param == "Redis":
        exchange = RedisExchange(link.client, keys)
    machine = LearnersMachine(link, keys, tmp_path, exchange)
    yield machine
    machine.relay.stop()


@pytest.mark.prove(after=1)
@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_all_have_the_newest_in_the_end(learner: LearnersMachine, seed: int) -> None:
    learner.parts = 1 + seed % 3
    events = Events(learner, seed)
    try:
        for _ in range(300):
            events.happen()
        events.settle()
    finally:
        for one in events.asking:
            one.weights.close()
