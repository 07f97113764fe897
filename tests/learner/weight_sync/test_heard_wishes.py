"""Who lives is told by counts that rise, from look to look."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from learner.weight_sync import heard_wishes
from learner.weight_sync.heard_wishes import HeardWishes


@dataclass(frozen=True)
class Wish:
    """A wish that says nothing else."""

    count: int


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(heard_wishes, "time", clock)
    return clock


def test_a_generator_lives_for_as_long_as_its_count_rises(clock: Clock) -> None:
    heard = HeardWishes[Wish](old_s=10)
    heard.listen({})
    heard.listen({"a": Wish(1), "b": Wish(7)})
    clock.now += 4
    heard.listen({"a": Wish(2), "b": Wish(7)})
    assert heard.since(3) == {"a": Wish(2)}
    assert heard.since(5) == {"a": Wish(2), "b": Wish(7)}
    heard.listen({"b": Wish(1)})  # started again, under the same name
    assert heard.since(3) == {"b": Wish(1)}


def test_what_is_there_at_the_first_look_may_be_left_from_the_dead(clock: Clock) -> None:
    heard = HeardWishes[Wish](old_s=10)
    assert not heard.has_looked
    heard.listen({"a": Wish(1), "b": Wish(1)})
    assert heard.has_looked
    assert heard.since(10) == {}
    clock.now += 1
    heard.listen({"a": Wish(1), "b": Wish(2)})
    assert heard.since(10) == {"b": Wish(2)}
