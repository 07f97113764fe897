"""Who is back after a kill, told from looks at the run alone."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest

from tools.chaos.returns import Returns
from tools.chaos.targets import Observation

pytestmark = pytest.mark.process


def seen(
    *, version: int = 3, answers: bool = True, announced_ms: int = 0, starting: str = "", **ready: str
) -> Observation:
    beats = {role: frozenset(beats) for role, beats in ready.items()}
    told: dict[str, Any] = {"redis_answers": answers, "version": version, "announced_ms": announced_ms}
    return Observation((), beats, frozenset(starting), **told)


@pytest.mark.parametrize(("role", "before", "between", "after"), [
    ("generator", {"generator": "a"}, {"generator": ""}, {"generator": "b"}),
    ("scorer", {"scorer": "ab"}, {"scorer": "b"}, {"scorer": "bc"}),
    ("dispatcher", {"dispatcher": "a"}, {"dispatcher": "a", "scorer": "b"}, {"dispatcher": "ac"}),
    ("pool", {"dispatcher": "a", "scorer": "bc"}, {"dispatcher": "d"},
        {"dispatcher": "d", "scorer": "e"}),
])  # fmt: skip
def test_a_role_is_back_when_a_new_heartbeat_is_at_work(
    role: str, before: Mapping[str, Any], between: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    told: list[str] = []
    returns = Returns(lambda who, _seconds: told.append(who))
    returns.killed(role, seen(**before))
    returns.look(seen(**before))  # the heartbeat of a dead process outlives it
    returns.look(seen(**between))
    assert returns.is_missing(role)
    returns.look(seen(**after))
    assert not returns.is_missing(role)
    assert told == [role]


def test_one_new_heartbeat_is_one_return() -> None:
    returns = Returns()
    returns.killed("scorer", seen(scorer="ab"))
    returns.killed("scorer", seen(scorer="b"))
    returns.look(seen(scorer="c"))
    assert (len(returns.seconds["scorer"]), returns.is_missing("scorer")) == (1, True)
    returns.look(seen(scorer="cd"))
    assert (len(returns.seconds["scorer"]), returns.is_missing("scorer")) == (2, False)


def test_one_that_was_starting_before_the_kill_is_no_return_of_it() -> None:
    returns = Returns()
    returns.killed("scorer", seen(scorer="a", starting="b"))
    returns.look(seen(scorer="b", starting="c"))
    assert returns.is_missing("scorer")
    returns.killed("scorer", seen(scorer="b", starting="c"))
    returns.look(seen(scorer="c"))
    assert len(returns.seconds["scorer"]) == 1, "of the first kill; the second one came when it was starting"
    assert returns.is_missing("scorer")


def test_redis_is_back_when_it_answers() -> None:
    returns = Returns()
    returns.killed("redis", seen())
    returns.look(seen(answers=False))
    assert returns.is_missing("redis")
    returns.look(seen())
    assert returns.summary()["redis"]["largest"] < 1.0


def test_the_learner_is_back_when_it_announces_and_may_be_killed_again_after_a_step() -> None:
    returns = Returns()
    now = int(time.time() * 1000)
    assert not returns.learner_has_stepped(seen(version=-1))
    returns.look(seen(version=3))  # there when the first look came
    assert not returns.learner_has_stepped(seen(version=3))
    assert returns.learner_has_stepped(seen(version=4))
    returns.killed("learner", seen(version=4, announced_ms=now - 500))
    returns.look(seen(version=4, announced_ms=now - 500))
    assert returns.is_missing("learner"), "it is the announcement of its life before"
    assert not returns.learner_has_stepped(seen(version=5))
    returns.look(seen(version=5, announced_ms=now + 5000))  # from its journal
    assert not returns.is_missing("learner")
    assert not returns.learner_has_stepped(seen(version=5))
    assert returns.learner_has_stepped(seen(version=6))


def test_the_summary_has_the_median_and_the_largest() -> None:
    returns = Returns()
    returns.seconds = {"scorer": [3.0, 1.0, 10.0], "redis": [0.5]}
    redis, scorer = {"median": 0.5, "largest": 0.5}, {"median": 3.0, "largest": 10.0}
    assert returns.summary() == {"redis": redis, "scorer": scorer}
