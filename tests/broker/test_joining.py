"""Joining a run: wait for its configuration, and never for ever. Real Redis."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import redis

from broker import joining
from broker.connection import RedisLink
from broker.errors import BrokerUnavailable
from broker.joining import Joined, NoRun, RunState, find_redis, join, let_the_learner_go_first, state_of
from broker.keys import Keys
from config.loading import to_yaml
from config.run import Run
from tests.conftest import free_port
from tests.support.in_time import later
from tests.support.waiting import wait_until

FAILED = {"status": "failed", "reason": "the model does not load", "begun": "no"}


@pytest.fixture
def run() -> Run:
    named = {"name": "test", "model": {"path": "nowhere"}, "data": {"train": {"type": "procedural"}}}
    return Run.model_validate(named | {"broker": {"outage_s": 12.0}})


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, redis_url: str) -> None:
    monkeypatch.setattr(joining, "POLL_S", 0.01)
    monkeypatch.setattr(joining, "SAY_EVERY_S", 0.02)
    monkeypatch.setenv("REDIS_URL", redis_url)


def say(link: RedisLink, keys: Keys, **fields: Any) -> None:
    mapping: dict[Any, Any] = fields
    link.client.hset(keys("run"), mapping=mapping)


def join_test(patience_s: float = 20, stop: threading.Event | None = None) -> Joined | None:
    return join("test", Path("runs"), stop or threading.Event(), patience_s=patience_s)


@pytest.mark.parametrize(
    ("left", "says"),
    [
        ({}, "for the learner of run test at 127.0.0.1"),
        (FAILED, "(one ended: failed the model does not load)"),  # before it began
    ],
)
def test_a_role_waits_for_the_learners_configuration_and_says_so(
    *,
    left: dict[str, str],
    says: str,
    run: Run,
    link: RedisLink,
    keys: Keys,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def begin() -> None:
        wait_until(lambda: says in caplog.text)
        say(link, keys, config=to_yaml(run), status="running")

    if left:
        say(link, keys, **left)
    caplog.set_level("INFO")
    with later(0, begin):
        joined = join_test()
    assert joined is not None
    assert (to_yaml(joined.run), joined.keys) == (to_yaml(run), keys)
    assert joined.link.outage_s == 12.0, "the run's own patience with Redis"
    joined.link.close()


def test_a_role_without_a_model_joins_a_learner_that_loads(run: Run, link: RedisLink, keys: Keys) -> None:
    joining.announce_coming(link, keys, run)
    joined = join("test", Path("runs"), threading.Event(), is_early=True)
    assert joined is not None
    assert to_yaml(joined.run) == to_yaml(run)
    joined.link.close()
    say(link, keys, **FAILED)
    with pytest.raises(NoRun, match="one ended: failed"):
        join("test", Path("runs"), threading.Event(), is_early=True, patience_s=0.05)


def test_a_full_redis_takes_what_is_announced(run: Run, link: RedisLink, keys: Keys) -> None:
    """A run that filled it goes on, and so its memory is freed."""
    link.client.config_set("maxmemory", 1)
    try:
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            link.client.hset(keys.run, "coming", "")
        joining.announce_coming(link, keys, run)
    finally:
        link.client.config_set("maxmemory", 0)
    assert link.client.hget(keys.run, "coming") == to_yaml(run).encode()


def test_it_prepares_once_for_what_a_loading_learner_announces(run: Run, link: RedisLink, keys: Keys) -> None:
    prepared: list[Run] = []

    def prepare(coming: Run) -> None:
        prepared.append(coming)
        say(link, keys, config=to_yaml(run), status="running")
        raise ImportError("which the later import reports")

    joining.announce_coming(link, keys, run)
    joined = join("test", Path("runs"), threading.Event(), prepare=prepare)
    assert list(map(to_yaml, prepared)) == [to_yaml(run)]
    joining.reset_run_state(link, keys)
    assert not link.client.hexists(keys.run, "coming"), "it was of this learner"
    say(link, keys, config=to_yaml(run), status="running", coming=to_yaml(run))
    again = join("test", Path("runs"), threading.Event(), prepare=prepare)
    assert len(prepared) == 1, "the run has begun"
    for one in (joined, again):
        assert one is not None
        one.link.close()


@pytest.mark.parametrize(
    ("left", "says"),
    [
        ({}, r"no run test at 127\.0\.0\.1:\d+ after 0 s: is its learner running\?"),
        (FAILED, r"is its learner running.*one ended: failed the model does not load"),
    ],
)
def test_patience_ends_with_a_reason(left: dict[str, str], says: str, link: RedisLink, keys: Keys) -> None:
    if left:
        say(link, keys, **left)
    with pytest.raises(NoRun, match=says):
        join_test(patience_s=0.05)


def test_a_stop_ends_the_waiting_also_for_redis_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()
    with later(0.05, stop.set):
        assert join_test(stop=stop) is None
    monkeypatch.setenv("REDIS_URL", f"redis://127.0.0.1:{free_port()}/0")
    stop.clear()
    with later(0.1, stop.set), pytest.raises(BrokerUnavailable, match="stopped while waiting for redis"):
        join_test(stop=stop)


def test_a_configuration_of_another_version_is_refused_by_name(run: Run, link: RedisLink, keys: Keys) -> None:
    say(link, keys, config=to_yaml(run) + "warp: 9\n")
    with pytest.raises(
        NoRun, match=r"(?s)run test can't be read; do all its processes have one version\?.*warp"
    ):
        join_test()


def test_without_any_redis_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("REDIS_URL")
    with pytest.raises(NoRun, match="set REDIS_URL, or start the run with `millrace up CONFIG` first"):
        find_redis("test", tmp_path)


@pytest.mark.parametrize("status", ["", "running", "finished", "stopped", "failed"])
def test_a_run_has_ended_when_its_status_says_so(link: RedisLink, keys: Keys, status: str) -> None:
    if status:
        say(link, keys, status=status)
    assert state_of(link, keys) == RunState(status, "")
    assert state_of(link, keys).has_ended is (status in {"finished", "stopped", "failed"})


def test_who_ends_with_the_run_lets_its_learner_go_first(link: RedisLink, keys: Keys) -> None:
    link.client.hset(keys.alive("learner", "here-1"), "state", "writing the model")
    waiting = threading.Thread(target=let_the_learner_go_first, args=(link, keys, threading.Event()))
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    link.client.delete(keys.alive("learner", "here-1"))
    waiting.join(10)
    assert not waiting.is_alive()


@pytest.mark.parametrize("is_told", [True, False])
def test_nobody_waits_for_ever_for_a_learner_to_go(
    is_told: bool,
    link: RedisLink,
    keys: Keys,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(joining, "LEARNER_GONE_S", 60.0 if is_told else 0.05)
    link.client.hset(keys.alive("learner", "here-1"), "state", "stuck")
    stop = threading.Event()
    if is_told:
        stop.set()
    let_the_learner_go_first(link, keys, stop)
    assert ("ending, though" in caplog.text) is not is_told
