"""What all workers of a run share: how many calls are under way, how fast they begin, what was said. Real Redis."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest

from broker.connection import RedisLink
from broker.keys import Keys
from broker.monitoring.snapshot import keys_of
from config.endpoint import EndpointConfig
from scorers.served_model import cache
from scorers.served_model.cache import ProcessReplies, Replies, RunReplies
from scorers.served_model.client import Endpoint, Reply
from scorers.served_model.concurrency_limits import (
    Ask,
    ConcurrencyLimits,
    Grant,
    ProcessConcurrencyLimits,
    RunConcurrencyLimits,
    Shared,
    Terms,
)
from tests.support.endpoint_server import SILENT, Saying, ScriptedEndpoint, in_turn, scripted_endpoint
from tests.support.redis_servers import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

URLS = ("http://judge:8000/v1",)


def terms(
    concurrency: int = 64,
    requests_per_minute: int | None = None,
    lease_s: float = 60.0,
    urls: tuple[str, ...] = URLS,
) -> Terms:
    return Terms(urls=urls, concurrency=concurrency, requests_per_minute=requests_per_minute, lease_s=lease_s)


def exchange(
    limits: ConcurrencyLimits,
    agreed: Terms,
    ended: Sequence[str],
    wanted: Sequence[str],
    *,
    who: str = "w",
    held: int = 0,
) -> Grant:
    return limits.exchange(agreed, Ask(who, held, ended, wanted))


@pytest.fixture
def shared(link: RedisLink, keys: Keys) -> Shared:
    return Shared(link, keys)


@pytest.fixture(params=["redis", "process"])
def limits(request: pytest.FixtureRequest, shared: Shared) -> ConcurrencyLimits:
    return RunConcurrencyLimits(shared) if request.param == "redis" else ProcessConcurrencyLimits()


@pytest.fixture(params=["redis", "process"])
def replies(request: pytest.FixtureRequest, shared: Shared) -> Replies:
    return RunReplies(shared) if request.param == "redis" else ProcessReplies()


def test_calls_begin_in_order_while_there_is_room_and_others_when_they_end(limits: ConcurrencyLimits) -> None:
    assert exchange(limits, terms(3), [], ["a", "b", "c", "d"]).begun == ["a", "b", "c"]
    assert exchange(limits, terms(3), [], ["d"]).begun == []
    grant = exchange(limits, terms(3), ["b", "never begun"], ["d", "e"])
    assert (grant.begun, grant.wait_s) == (["d"], 0.0)
    assert exchange(limits, terms(3), ["a", "c", "d"], []).begun == []
    assert len(exchange(limits, terms(3), [], list("fghijk")).begun) == 3


def test_calls_begin_at_the_agreed_pace_and_half_an_interval_early_at_most(limits: ConcurrencyLimits) -> None:
    agreed = terms(requests_per_minute=600)  # one in 0.1 s
    grant = exchange(limits, agreed, [], ["a", "b"])
    assert grant.begun == ["a"]
    assert 0.0 < grant.wait_s <= 0.05
    assert exchange(limits, agreed, ["a"], ["b"]).begun == []
    time.sleep(grant.wait_s)
    assert exchange(limits, agreed, [], ["b", "c"]).begun == ["b"]


def test_in_no_time_do_more_begin_than_the_pace_and_one(shared: Shared, redis_url: str) -> None:
    agreed, names = terms(1_000_000, requests_per_minute=30_000), itertools.count()  # one in 2 ms
    windows: list[tuple[float, int]] = []

    def work(limits: RunConcurrencyLimits, begun: list[int]) -> None:
        while not stop.is_set():
            begun[0] += len(exchange(limits, agreed, [], [str(next(names)) for _ in range(3)]).begun)

    links = [RedisLink(redis_url, outage_s=10) for _ in range(2)]
    counts = [[0] for _ in links]
    stop = threading.Event()
    threads = [
        threading.Thread(target=work, args=(RunConcurrencyLimits(Shared(link, shared.keys)), count))
        for link, count in zip(links, counts, strict=True)
    ]
    began = clock(shared.link)
    for thread in threads:
        thread.start()
    for _ in range(5):
        time.sleep(0.05)
        total = sum(count[0] for count in counts)  # of no more time than until now
        windows.append((clock(shared.link) - began, total))
    stop.set()
    for thread in threads:
        thread.join()
    for link in links:
        link.close()
    assert all(total <= seconds / 0.002 + 1.5 for seconds, total in windows), windows
    assert windows[-1][1] > 50, "nor much less"


def clock(link: RedisLink) -> float:
    seconds, micros = link.client.time()
    return float(seconds) + micros / 1e6


def test_a_killed_workers_calls_come_back_and_what_was_asked_twice_counts_once(shared: Shared) -> None:
    limits = RunConcurrencyLimits(shared)
    agreed = terms(2, lease_s=0.15)
    for _ in range(3):  # the reply was lost, and the link asks again
        assert exchange(limits, agreed, [], ["a", "b"]).begun == ["a", "b"]
    assert exchange(limits, agreed, [], ["c"]).begun == []
    paced = terms(2, requests_per_minute=60, urls=("http://slow",))
    for _ in range(3):
        assert exchange(limits, paced, [], ["a", "b"]).begun == ["a"]
    time.sleep(0.16)
    assert exchange(limits, agreed, [], ["c", "d", "e"]).begun == ["c", "d"]


def test_another_endpoint_and_another_run_have_their_own_limits(shared: Shared) -> None:
    limits = RunConcurrencyLimits(shared)
    assert exchange(limits, terms(1, urls=("http://a/v1", "http://b/v1")), [], ["a"]).begun == ["a"]
    assert exchange(limits, terms(1, urls=("http://b/v1", "http://a/v1")), [], ["b"]).begun == []
    assert exchange(limits, terms(1), [], ["c"]).begun == ["c"]
    others = RunConcurrencyLimits(Shared(shared.link, Keys("other")))
    assert exchange(others, terms(1), [], ["d"]).begun == ["d"]


def test_while_two_want_more_each_has_its_third_and_who_waits_for_longest_two(shared: Shared) -> None:
    limits = RunConcurrencyLimits(shared)

    def begun(who: str, held: int, ended: Sequence[str], wanted: Sequence[str]) -> list[str]:
        return list(exchange(limits, terms(6), ended, wanted, who=who, held=held).begun)

    five = [f"a{number}" for number in range(1, 6)]
    assert begun("a", 0, [], five) == five, "and wants no more"
    assert begun("b", 0, [], ["b1", "b2", "b3", "b4", "b5", "b6"]) == ["b1"]
    assert begun("a", 4, ["a1"], ["a6", "a7", "a8"]) == [], "it has its third"
    assert begun("b", 1, [], ["b2", "b3"]) == ["b2"]
    assert begun("a", 1, ["a2", "a3", "a4"], ["a6", "a7", "a8"]) == ["a6"]
    assert begun("b", 2, [], ["b3", "b4", "b5", "b6"]) == ["b3", "b4"], "four of six"
    assert begun("a", 1, ["a5"], ["a7", "a8"]) == ["a7"]
    assert begun("b", 3, ["b1"], ["b5"]) == ["b5"], "and now it has all that it wants"
    assert begun("a", 2, [], ["a8", "a9"]) == [], "nothing is free"
    assert begun("b", 1, ["b2", "b3", "b4"], ["b6", "b7"]) == ["b6"], "the other one is first now"
    assert begun("a", 2, [], ["a8", "a9", "a10"]) == ["a8", "a9"]
    assert begun("b", 2, [], []) == []
    assert begun("a", 3, ["a6"], ["a10", "a11"]) == ["a10"]
    assert begun("a", 3, ["a7"], ["a11", "a12"]) == ["a11"], "no other wants any"


def test_who_wants_more_and_dies_stands_in_nobodys_way(shared: Shared) -> None:
    limits = RunConcurrencyLimits(shared)
    agreed = terms(4)
    assert len(exchange(limits, agreed, [], ["a1", "a2", "a3", "a4", "a5"], who="a", held=0).begun) == 4
    assert exchange(limits, agreed, [], ["b1"], who="b", held=0).begun == []
    exchange(limits, agreed, ["a1", "a2", "a3", "a4"], [], who="c", held=0)  # their leases run out
    third = exchange(limits, agreed, [], ["b1", "b2", "b3", "b4"], who="b", held=0)
    assert len(third.begun) == 2
    time.sleep(0.51)
    assert exchange(limits, agreed, [], ["b3", "b4"], who="b", held=2).begun == ["b3", "b4"]


def test_full_memory_stops_no_call_and_costs_no_reply(shared: Shared) -> None:
    shared.link.client.config_set("maxmemory", "1")
    try:
        assert exchange(RunConcurrencyLimits(shared), terms(2), [], ["a", "b", "c"]).begun == ["a", "b"]
        replies = RunReplies(shared)
        replies.keep("0a", b"True")
        assert replies.find("0a") is None
    finally:
        shared.link.client.config_set("maxmemory", "0")


def test_replies_are_kept_by_name(replies: Replies) -> None:
    assert replies.find("0a") is None
    replies.keep("0a", b"\xff")
    replies.keep("1a", b"True")
    assert [replies.find(name) for name in ("0a", "1a", "0b")] == [b"\xff", b"True", None]


def test_replies_go_after_a_while_and_take_few_keys(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    replies = RunReplies(shared)
    for number in range(300):
        replies.keep(f"{number:x}", b"True")
    found = keys_of(shared.link.client, shared.keys("replies:"))
    assert len(found) <= 32, "one for each would slow down everybody who looks for keys"
    assert all(0 < int(str(shared.link.client.ttl(key))) <= 12 * 3600 for key in found)
    now = time.time()
    monkeypatch.setattr("scorers.served_model.cache.time.time", lambda: now + cache.PERIOD_S)
    assert replies.find("a") == b"True"
    monkeypatch.setattr("scorers.served_model.cache.time.time", lambda: now + 2 * cache.PERIOD_S)
    assert replies.find("a") is None


def test_a_process_keeps_the_replies_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_OWN", 2)
    replies = ProcessReplies()
    for name in "abac":
        replies.keep(name, b"True") if replies.find(name) is None else None
    assert [replies.find(name) for name in "abc"] == [b"True", None, b"True"]


Worker = Callable[..., Endpoint]


@pytest.fixture
def worker(keys: Keys) -> Iterator[Worker]:
    """Yield an endpoint as another worker of the run has it: with a link of its own."""
    links: list[RedisLink] = []
    endpoints: list[Endpoint] = []

    def make(server: ScriptedEndpoint, redis_url: str, **settings: object) -> Endpoint:
        links.append(RedisLink(redis_url, outage_s=10))
        config = EndpointConfig.model_validate(
            {"urls": (server.url,), "model": "judge", "cache": False} | settings
        )
        endpoints.append(Endpoint(config, Shared(links[-1], keys)))
        return endpoints[-1]

    yield make
    for endpoint in endpoints:
        endpoint.close()
    for link in links:
        link.close()


def ask(endpoint: Endpoint, count: int) -> list[Future[Reply]]:
    return [endpoint.ask([{"role": "user", "content": str(number)}]) for number in range(count)]


def test_several_workers_together_keep_as_many_under_way_as_one_may(worker: Worker, redis_url: str) -> None:
    with scripted_endpoint(Saying(delay_s=0.02)) as server:
        asked = [
            future
            for endpoint in [worker(server, redis_url, concurrency=8) for _ in range(3)]
            for future in ask(endpoint, 30)
        ]
        assert {future.result(20).text for future in asked} == {"True"}
        assert len(server.calls) == 90
        assert 8 <= server.most_at_once <= 9


def test_a_late_worker_does_not_wait_for_the_others_to_be_done(worker: Worker, redis_url: str) -> None:
    with scripted_endpoint(Saying(delay_s=0.05)) as server:
        first, second = (worker(server, redis_url, concurrency=4) for _ in range(2))
        many = ask(first, 40)
        wait_until(lambda: len(server.calls) >= 4, poll_s=0.001)
        for future in ask(second, 4):
            future.result(20)
        assert sum(future.done() for future in many) < 30
        assert {future.result(20).text for future in many} == {"True"}


def test_one_worker_asks_and_the_others_know(worker: Worker, redis_url: str, shared: Shared) -> None:
    with scripted_endpoint() as server:
        first, second = (worker(server, redis_url, cache=True) for _ in range(2))
        assert not any(future.result(20).cached for future in ask(first, 3))
        assert all(future.result(20).cached for future in ask(second, 3))
        assert len(server.calls) == 3
        assert second.take_counts() == {"cache_hits": 3}
        for settings in ({"max_tokens": 7}, {"temperature": 0.5}):
            assert not ask(worker(server, redis_url, cache=True, **settings), 1)[0].result(20).cached
        for key in keys_of(shared.link.client, shared.keys("replies:")):
            for name in shared.link.client.hkeys(key):
                shared.link.client.hset(key.decode(), name, b"\xc1")  # of some other version
        assert not ask(second, 1)[0].result(20).cached


def test_a_worker_that_ends_gives_its_calls_back(worker: Worker, redis_url: str) -> None:
    with scripted_endpoint(SILENT) as server:
        first, second = (worker(server, redis_url, concurrency=2) for _ in range(2))
        ask(first, 5)
        wait_until(lambda: len(server.calls) >= 2, poll_s=0.001)
        asked = ask(second, 2)
        server.script = in_turn("True")
        first.close()
        assert [future.result(20).text for future in asked] == ["True", "True"]


def test_while_redis_is_away_calls_wait_and_none_is_lost(worker: Worker, tmp_path: Path) -> None:
    redis = RedisServer(tmp_path / "redis")
    try:
        with scripted_endpoint() as server:
            endpoint = worker(server, redis.url, cache=True)
            assert ask(endpoint, 1)[0].result(20).text == "True"
            redis.stop()
            asked = ask(endpoint, 3)[1:]
            time.sleep(0.1)
            assert not any(future.done() for future in asked)
            redis.start()
            assert [future.result(20).text for future in asked] == ["True", "True"]
            endpoint.close()
    finally:
        redis.kill()
