"""Heartbeats on a real Redis, which goes away for a while."""

from __future__ import annotations

import time

from broker.connection import RedisLink
from broker.keys import Keys
from broker.monitoring.heartbeat import Heartbeat
from broker.monitoring.snapshot import snapshot
from tests.support.waiting import wait_until


def states(link: RedisLink) -> list[tuple[str, str, str, str]]:
    return [(one.role, one.id, one.state, one.version) for one in snapshot(link.client, "test").processes]


def test_what_a_process_says_is_seen_until_it_stops(link: RedisLink, keys: Keys) -> None:
    heart = Heartbeat(link, keys, "generator", "g-1")
    wait_until(lambda: states(link) == [("generator", "g-1", "starting", "")])
    heart.set_state("sampling", version="7")
    wait_until(lambda: states(link) == [("generator", "g-1", "sampling", "7")])
    heart.stop()
    assert states(link) == []


def test_a_beat_outlives_its_ttl_only_while_it_is_refreshed(link: RedisLink, keys: Keys) -> None:
    heart = Heartbeat(link, keys, "scorer", "s-1", ttl_s=0.3)
    wait_until(lambda: len(states(link)) == 1)
    time.sleep(0.6)
    assert len(states(link)) == 1
    heart._stop.set()  # as a kill would: the key is left to Redis
    wait_until(lambda: states(link) == [], within_s=2.0)


def test_a_heart_goes_on_beating_after_an_outage(link: RedisLink, keys: Keys, redis_url: str) -> None:
    heart = Heartbeat(link, keys, "scorer", "s-1", ttl_s=0.3)
    wait_until(lambda: len(states(link)) == 1)
    refuse = link.client.connection_pool.connection_kwargs
    port, refuse["port"] = refuse["port"], 1  # nobody listens there
    link.client.connection_pool.disconnect()
    time.sleep(0.5)
    heart.set_state("waiting for redis")  # does not block
    refuse["port"] = port
    wait_until(lambda: states(link) == [("scorer", "s-1", "waiting for redis", "")])
    heart.stop()
