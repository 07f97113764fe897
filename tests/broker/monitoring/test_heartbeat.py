"""Heartbeats on a real Redis, which goes away for a while."""

from __future__ import annotations

from typing import Any

import pytest

from broker.connection import RedisLink
from broker.keys import Keys
from broker.monitoring import heartbeat
from broker.monitoring.heartbeat import Heartbeat
from broker.monitoring.snapshot import snapshot
from tests.support.hearts import looks
from tests.support.made_up_time import MadeUpTime
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "LOOK_S", 0.02)


def states(link: RedisLink) -> list[tuple[str, str, str, str]]:
    return [(one.role, one.id, one.state, one.version) for one in snapshot(link.client, "test").processes]


def test_what_a_process_says_is_seen_until_it_stops(link: RedisLink, keys: Keys) -> None:
    heart = Heartbeat(link, keys, "generator", "g-1")
    wait_until(lambda: states(link) == [("generator", "g-1", "starting", "")])
    heart.set_state("sampling", version="7")
    wait_until(lambda: states(link) == [("generator", "g-1", "sampling", "7")])
    heart.stop()
    assert states(link) == []


def test_a_beat_is_refreshed_long_before_its_ttl_is_over(link: RedisLink, keys: Keys) -> None:
    made_up, key = MadeUpTime(), keys.alive("scorer", "s-1")
    heart = Heartbeat(link, keys, "scorer", "s-1", ttl_s=30.0, clock=made_up.clock)
    wait_until(lambda: len(states(link)) == 1)
    client: Any = link.client
    client.pexpire(key, 20_000)
    made_up.now += 9.0  # less than a third
    looks(heart)
    assert client.pttl(key) <= 20_000
    made_up.now += 1.0
    wait_until(lambda: 20_000 < client.pttl(key) <= 30_000)
    heart._stop.set()  # as a kill would
    heart._thread.join()
    assert client.pttl(key) > 0, "the key is left to Redis, which removes it"


def test_a_heart_goes_on_beating_after_an_outage(
    link: RedisLink, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    heart = Heartbeat(link, keys, "scorer", "s-1")
    wait_until(lambda: len(states(link)) == 1)
    nobody = RedisLink("redis://127.0.0.1:1/0", outage_s=0)
    there, heart._client = heart._client, nobody.client
    heart.set_state("waiting for redis")  # does not block
    wait_until(lambda: "heartbeat not heard" in caplog.text)
    looks(heart)
    heart._client = there
    nobody.close()
    wait_until(lambda: states(link) == [("scorer", "s-1", "waiting for redis", "")])
    heart.stop()
