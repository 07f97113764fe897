"""Joining a run: wait for its configuration, and never for ever. Real Redis."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from broker import joining
from broker.connection import RedisLink
from broker.errors import BrokerUnavailable
from broker.joining import NoRun, RunState, find_redis, join, let_the_learner_go_first, state_of
from broker.keys import Keys
from config.loading import to_yaml
from config.run import Run
from tests.conftest import free_port


def make_run() -> Run:
    return Run.model_validate(
        {
            "name": "test",
            "model": {"path": "nowhere"},
            "data": {"train": {"type": "procedural"}},
            "broker": {"outage_s": 12.0},
        }
    )


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, redis_url: str) -> None:
    monkeypatch.setattr(joining, "POLL_S", 0.01)
    monkeypatch.setattr(joining, "SAY_EVERY_S", 0.02)
    monkeypatch.setenv("REDIS_URL", redis_url)


def say(link: RedisLink, keys: Keys, **fields: Any) -> None:
    """What the learner writes of its run."""
    mapping: dict[Any, Any] = fields
    link.client.hset(keys("run"), mapping=mapping)


@pytest.mark.parametrize(
    ("left", "says"),
    [
        ({}, "for the learner of run test at 127.0.0.1"),
        (
            {"status": "failed", "reason": "the model does not load", "begun": "no"},
            "(one ended: failed the model does not load)",
        ),
    ],
    ids=["none before", "one that failed before it began"],
)
def test_a_role_waits_for_the_learners_configuration_and_says_so(
    left: dict[str, str], says: str, link: RedisLink, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    said = threading.Event()

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if says in record.getMessage():
                said.set()

    def begin() -> None:
        if said.wait(10):
            say(link, keys, config=to_yaml(make_run()), status="running")

    if left:
        say(link, keys, **left)
    caplog.set_level("INFO")
    ear = Ear()
    joining.log.addHandler(ear)
    learner = threading.Thread(target=begin)
    learner.start()
    try:
        joined = join("test", Path("runs"), threading.Event(), patience_s=20)
    finally:
        joining.log.removeHandler(ear)
        learner.join()
    assert joined is not None
    assert to_yaml(joined.run) == to_yaml(make_run())
    assert joined.link.outage_s == 12.0, "the run's own patience with Redis"
    assert joined.keys == keys
    joined.link.close()


def test_patience_ends_with_what_was_waited_for(redis_url: str) -> None:
    address = redis_url.removeprefix("redis://").removesuffix("/0")
    with pytest.raises(NoRun, match=rf"no run test at {address} after 0 s: is its learner running\?"):
        join("test", Path("runs"), threading.Event(), patience_s=0.05)


def test_patience_ends_with_the_reason_of_the_learner_that_failed(link: RedisLink, keys: Keys) -> None:
    say(link, keys, status="failed", reason="the model does not load", begun="no")
    with pytest.raises(NoRun, match=r"is its learner running.*one ended: failed the model does not load"):
        join("test", Path("runs"), threading.Event(), patience_s=0.05)


def test_a_stop_ends_the_waiting(redis_url: str) -> None:
    stop = threading.Event()
    threading.Timer(0.05, stop.set).start()
    assert join("test", Path("runs"), stop, patience_s=20) is None


def test_a_stop_ends_the_waiting_for_redis_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", f"redis://127.0.0.1:{free_port()}/0")
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(BrokerUnavailable, match="stopped while waiting for redis"):
        join("test", Path("runs"), stop)


def test_a_configuration_of_another_version_is_refused_by_name(link: RedisLink, keys: Keys) -> None:
    say(link, keys, config=to_yaml(make_run()) + "warp: 9\n")
    with pytest.raises(
        NoRun, match=r"(?s)run test can't be read; do all its processes have one version\?.*warp"
    ):
        join("test", Path("runs"), threading.Event())


def test_without_any_redis_the_message_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("REDIS_URL")
    with pytest.raises(NoRun, match="set REDIS_URL, or start the run with `millrace up CONFIG` first"):
        find_redis("test", tmp_path)


@pytest.mark.parametrize(
    ("status", "has_ended"),
    [("", False), ("running", False), ("finished", True), ("stopped", True), ("failed", True)],
)
def test_a_run_has_ended_when_its_status_says_so(
    link: RedisLink, keys: Keys, status: str, has_ended: bool
) -> None:
    if status:
        say(link, keys, status=status)
    assert state_of(link, keys) == RunState(status, "")
    assert state_of(link, keys).has_ended is has_ended


def test_who_ends_with_the_run_lets_its_learner_go_first(link: RedisLink, keys: Keys) -> None:
    link.client.hset(keys.alive("learner", "here-1"), "state", "writing the model")
    waiting = threading.Thread(target=let_the_learner_go_first, args=(link, keys, threading.Event()))
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    link.client.delete(keys.alive("learner", "here-1"))
    waiting.join(10)
    assert not waiting.is_alive()


@pytest.mark.parametrize(
    ("is_told", "patience_s", "says"), [(True, 60.0, ""), (False, 0.05, "ending, though")]
)
def test_nobody_waits_for_ever_for_a_learner_to_go(
    *,
    is_told: bool,
    patience_s: float,
    says: str,
    link: RedisLink,
    keys: Keys,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(joining, "LEARNER_GONE_S", patience_s)
    link.client.hset(keys.alive("learner", "here-1"), "state", "stuck")
    stop = threading.Event()
    if is_told:
        stop.set()
    let_the_learner_go_first(link, keys, stop)
    assert says in caplog.text
