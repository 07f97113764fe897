"""`millrace top`: what it shows of a run that was laid out by hand, and what it does without one. Real Redis."""

from __future__ import annotations

import io
import json
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from broker.connection import RedisLink
from broker.errors import BrokerUnavailable
from broker.joining import NoRun
from broker.keys import Keys
from tests.support.laid_heartbeats import Laid
from tests.support.told import Millrace, Patch
from tests.support.verbs import call
from tools.run_view.follower import RunFollower
from tools.top import screen
from tools.top.keys import KEYS
from tools.top.report import report

pytestmark = pytest.mark.prove(after=1)


@pytest.fixture
def laid(link: RedisLink, keys: Keys) -> Laid:
    return Laid(link, keys)


@pytest.fixture
def follower(laid: Laid, redis_url: str, tmp_path: Path) -> Iterator[RunFollower]:
    """Two looks, between which ten seconds of work were done."""
    made = RunFollower(redis_url, "test", tmp_path / "runs" / "test")
    assert made.look()
    laid.beat(10)
    assert made.look()
    yield made
    made.close()


def paths(tree: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Yield every key of a report; names that a run chooses are left out."""
    for name, value in tree.items():
        key = f"{above}{name}"
        yield key
        inner = value if isinstance(value, list) else [value]
        if name == "streams":
            inner = list(value.values())
        if name not in {"queued_jobs", "waits", "ends", "failures", "knob"}:
            for one in inner:
                if isinstance(one, dict):
                    yield from paths(one, f"{key}.")


def drawn(follower: RunFollower, width: int = 100, height: int = 40, *, is_cut: bool = True) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height)
    console.print(screen.screen(follower.view, console, is_cut=is_cut))
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 100, 140])
def test_the_screen_names_bottleneck_roles_streams_and_processes(follower: RunFollower, width: int) -> None:
    shown = drawn(follower, width)
    assert max(map(len, shown.splitlines())) <= width
    for pattern in (
        r"bottleneck: scorers \(1\), 90% busy; one more: about \+82%, 2 → 3.6",
        r"generators +1 +50% +2 +1 +800 +50% prompts",
        r"scorers +1 +90% +2 +0.45 +- +10% rollouts",
        r"learner +1 +10% +2 +0.025 +- +90% groups",  # forty steps in a second of work
        r"prompts +4 +3 +1 ",
        r"rollouts +2 +2 +0 ",
        r"dead +0 +- +- +-",
        r"budget +6 of 8 slots, oldest floor 5, version 5 \(max_lag 1\), 6",
        r"age +8.0s: sampling 4.0s, scoring 0.0s, queue 4.0s",
        r"learner +box +1 +5 +10% +[\d.]+s +12 s: 3 of 4 groups",
        r"dispatcher +box +4 +- +- .*waiting",
        r"running · step 5/60 · 30 steps/min · about 1:50 left",
    ):
        assert re.search(pattern, shown), f"{pattern}\n{shown}"


def test_what_is_played_is_shown_of_a_run_with_agents_alone(follower: RunFollower, laid: Laid) -> None:
    assert "played" not in drawn(follower)
    assert "episodes" not in report(follower.view)
    laid.play()
    assert follower.look()
    shown = drawn(follower, width=140, height=60)
    for pattern in (
        r"agents +1 +25% +0.04 +12.5 ",
        r"played +90 turns, 60 calls of tools \(2 errors\), 500 tokens sampled, 700",
        r"ended: 28 by message, 2 by turns",
        r"agent +box +5 +- +25% .*playing",
    ):
        assert re.search(pattern, shown), f"{pattern}\n{shown}"
    now = follower.view.snapshot
    assert now is not None
    follower.view = replace(follower.view, snapshot=replace(now, advice="2 by KeyError ('[/b]')"))
    assert "2 by KeyError ('[/b]')" in drawn(follower), "no markup"
    told = report(follower.view)
    assert set(paths(told)) == KEYS.keys(), "millrace keys says what each means"
    assert told["episodes"]["ends"] == {"message": 28, "turns": 2}
    assert (told["episodes"]["environment_s"], told["episodes"]["queue_s"]) == (12.5, 4.5)


def test_a_low_terminal_shows_some_of_every_role_and_how_many_more(laid: Laid, follower: RunFollower) -> None:
    for number in range(20):
        key = laid.keys.alive("scorer", f"more-{number:02}")
        laid.client.hset(key, mapping={"pid": "7", "state": "scoring"})
    assert follower.look()
    shown = drawn(follower, height=30)
    assert len(shown.splitlines()) <= 30
    for role in ("learner", "generator", "dispatcher", "scorer"):
        assert re.search(rf"^│ {role} +\S* +\d", shown, re.MULTILINE), shown
    assert re.search(r"\.\.\. and \d+ more", shown)
    assert "... and" not in drawn(follower, height=30, is_cut=False)


def test_while_redis_is_away_it_keeps_what_it_saw_and_says_how_old_that_is(follower: RunFollower) -> None:
    options = follower._client.connection_pool.connection_kwargs
    port, options["port"] = options["port"], 1  # nobody listens there
    follower._client.connection_pool.reset()
    follower.view = replace(follower.view, heard_at=follower.view.heard_at - 30)
    assert not follower.look()
    shown = drawn(follower)
    assert "redis has not answered for 30 s" in shown
    assert "bottleneck: scorers" in shown
    assert report(follower.view)["silent_s"] == pytest.approx(30, abs=2)
    assert follower.how_it_ended() == ""
    options["port"] = port
    follower._client.connection_pool.reset()
    assert follower.look()
    assert "has not answered" not in drawn(follower)
    assert report(follower.view)["silent_s"] == 0


def test_before_the_first_answer_it_says_why_there_is_none(tmp_path: Path) -> None:
    follower = RunFollower("redis://127.0.0.1:1/0", "test", tmp_path)
    assert not follower.look()
    assert "redis has not answered for 0 s" in drawn(follower)
    assert "Connection refused" in drawn(follower, width=140)
    folder = tmp_path / "status.json"
    folder.write_text(json.dumps({"status": "failed", "reason": "the disk is full"}))
    assert follower.how_it_ended() == "failed: the disk is full", "the run took its Redis along"


def test_a_window_is_no_longer_than_its_limit(laid: Laid, redis_url: str, tmp_path: Path) -> None:
    follower = RunFollower(redis_url, "test", tmp_path, window_s=0.05)
    for seconds in (20, 30, 40):
        time.sleep(0.06)
        laid.beat(seconds)
        assert follower.look()
    assert len(follower._looks) == 2
    follower.close()


@pytest.mark.usefixtures("laid", "at_redis")
def test_once_prints_one_object(millrace: Millrace) -> None:
    told = millrace("top", "test", "--once", "--json", "--every", "0.05")
    found = told.json
    assert told.code == 0
    assert [role["role"] for role in found["roles"]] == ["generators", "scorers", "learner"]
    roles = {process["role"] for process in found["processes"]}
    assert roles == {"learner", "generator", "scorer", "dispatcher"}
    prompts = {"depth": 4, "leased": 1, "waiting": 3, "oldest_s": 0, "oldest_group": "2"}
    assert found["streams"]["prompts"] | {"oldest_s": 0} == prompts


@pytest.mark.usefixtures("laid", "at_redis")
def test_once_and_into_a_pipe_it_draws_the_screen_and_ends(millrace: Millrace) -> None:
    for words in (["--once"], []):
        told = millrace("top", "test", *words, "--every", "0.05")
        assert (told.code, "millrace top test" in told.out, "budget" in told.out) == (0, True, True)


@pytest.mark.usefixtures("at_redis")
@pytest.mark.parametrize("status", ["finished", "failed"])
def test_it_ends_with_the_run(laid: Laid, monkeypatch: Patch, millrace: Millrace, status: str) -> None:
    laid.client.hset(laid.keys("run"), mapping={"status": status, "reason": "so it was"})
    with monkeypatch.context() as terminal:
        terminal.setattr(sys.stdout, "isatty", lambda: True)
        told = millrace("top", "test")
    assert (told.code, f"\nrun test has ended: {status}: so it was\n" in told.out) == (0, True)
    assert millrace("top", "test", "--json").json["status"] == status
    assert millrace("top", "test", "--once", "--every", "1000").code == 0, "one look says all"


@pytest.mark.usefixtures("laid", "at_redis")
def test_ctrl_c_ends_it_with_0(monkeypatch: Patch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    assert call("top", "test") == 0


@pytest.mark.parametrize(
    ("url", "error", "says"),
    [
        ("", NoRun, "there is no run test at this redis"),
        ("redis://127.0.0.1:1/0", BrokerUnavailable, "no answer from the redis of run test"),
    ],
)
def test_once_fails_where_there_is_nothing_to_see(
    redis_url: str, monkeypatch: Patch, url: str, error: type[Exception], says: str
) -> None:
    monkeypatch.setenv("REDIS_URL", url or redis_url)
    with pytest.raises(error, match=says):
        call("top", "test", "--once", "--json")


@pytest.mark.parametrize("every", ["0", "-1", "soon", "nan", "100000"])
def test_seconds_that_are_none_are_refused(every: str, millrace: Millrace) -> None:
    told = millrace("top", "test", "--every", every)
    assert (told.code, "is no number of seconds" in told.err) == (2, True)


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", None])
@pytest.mark.parametrize(
    ("status", "reason"), [("finished", ""), ("failed", "so it was"), ("stopped", "a signal")]
)
def test_once_on_a_run_that_ended_with_its_redis_says_how(
    runs_dir: Path, monkeypatch: Patch, millrace: Millrace, *, url: str | None, status: str, reason: str
) -> None:
    if url is not None:
        monkeypatch.setenv("REDIS_URL", url)
    (runs_dir / "test").mkdir()
    told = {"status": status, "reason": reason, "version": 2, "steps": 3, "begun": "yes"}
    (runs_dir / "test" / "status.json").write_text(json.dumps(told))
    words = ["top", "test", "--once", "--runs-dir", runs_dir]
    said = f"the run has ended: {status}" + (f", {reason}" if reason else "")
    assert said in " ".join(millrace(*words).out.split())
    answer = millrace(*words, "--json")
    found = answer.json
    assert (answer.code, found["status"], found["reason"]) == (0, status, reason)
    assert (found["step"], found["steps"], found["verdict"]["text"]) == (2, 3, said)
