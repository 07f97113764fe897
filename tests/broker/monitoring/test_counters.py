"""Counters that several scorers add to, on a real Redis."""

from __future__ import annotations

import time

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from broker.connection import RedisLink
from broker.keys import Keys
from broker.monitoring import counters as tallying
from broker.monitoring.counters import ProcessTally, ScorerStats, read_stats, scorer_stats


def test_several_processes_add_up(link: RedisLink, keys: Keys) -> None:
    groups = {"groups": 1, "completions": 8}
    for _ in range(2):
        tally = ProcessTally()
        tally.count("math", "math", groups | {"unscorable": 2, "retries": 0}, seconds=0.5)
        tally.count("math", "math", groups | {"failed:ChildDied": 3}, seconds=0.25)
        tally.count("light", "my own scorer", {"groups": 1, "cache_hits": 3, "cache_misses": 1})
        tally.write(link.client, keys, is_due=True)
    mine, math = read_stats(link.client, keys)
    of_cache = {"cache_hits": 6, "cache_misses": 2, "failures": {}}
    assert mine == ScorerStats(queue="light", scorer="my own scorer", groups=2, **of_cache)  # type: ignore[arg-type]
    assert (math.queue, math.scorer, math.groups, math.completions) == ("math", "math", 4, 32)
    assert (math.unscorable, math.seconds, math.failures) == (4, 1.5, {"ChildDied": 6})
    assert (math.scored, math.seconds_a_group, math.seconds_a_completion) == (28, 0.375, 1.5 / 32)
    assert (mine.seconds_a_group, mine.seconds_a_completion) == (0.0, 0.0)
    assert (mine.cache_hit_rate, math.cache_hit_rate) == (0.75, None)


def test_counts_are_written_seldom_and_once(
    link: RedisLink, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    tally = ProcessTally()
    tally.count("math", "math", {"groups": 1})
    tally.write(link.client, keys)
    assert read_stats(link.client, keys) == (), "not due so soon"
    monkeypatch.setattr(tallying, "WRITE_EVERY_S", 0.0)
    for _ in range(2):
        tally.write(link.client, keys)
    assert [stats.groups for stats in read_stats(link.client, keys)] == [1]


def test_no_count_is_lost_while_redis_is_away(
    link: RedisLink, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    tally = ProcessTally()
    tally.count("math", "math", {"groups": 1}, seconds=0.5)
    started = time.monotonic()
    tally.write(redis.Redis(port=1, retry=Retry(NoBackoff(), 0)), keys, is_due=True)
    assert time.monotonic() - started < 5
    assert "tally_kept" in caplog.text
    tally.write(link.client, keys, is_due=True)
    assert [(stats.groups, stats.seconds) for stats in read_stats(link.client, keys)] == [(1, 0.5)]


@pytest.mark.parametrize(
    ("field", "value", "groups", "seconds"),
    [
        (b"math guesses math", b"3", 2, 0.5),  # of a newer version
        (b"math guesses", b"3", 2, 0.5),
        (b"\xff", b"3", 2, 0.5),
        (b"math groups math", b"many", 0, 0.5),
        (b"math seconds math", b"long", 2, 0.0),
    ],
)
def test_what_is_not_known_is_left_out(field: bytes, value: bytes, groups: int, seconds: float) -> None:
    (found,) = scorer_stats({b"math groups math": b"2", b"math seconds math": b"0.5", field: value})
    assert (found.queue, found.scorer, found.groups, found.seconds) == ("math", "math", groups, seconds)
