"""Time in which nobody could work brings no group nearer to its deadline."""

from __future__ import annotations

from agents.lost_time import LostTime


class Clock:
    """Unix seconds that stand still until they are moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_what_was_lost_since_a_groups_issue_counts_for_it_and_nothing_else() -> None:
    clock = Clock()
    lost = LostTime(clock)
    assert lost.since(900) == 0
    clock.now = 1100
    lost.note(30.0)
    clock.now = 1200
    lost.note(50.0)
    assert (lost.since(900), lost.since(1150), lost.since(1200)) == (50, 20, 0)


def test_a_new_learner_counts_from_0_and_takes_nothing_back() -> None:
    clock = Clock()
    lost = LostTime(clock)
    for seconds in (30.0, 0.0, 0.0, 5.0):
        clock.now += 100
        lost.note(seconds)
    assert lost.since(1000) == 35


def test_no_more_is_lost_than_has_passed_since_the_issue() -> None:
    """A worker that came after a long pause hears of all of it at once, and knows not when it was."""
    clock = Clock()
    lost = LostTime(clock)
    lost.note(5000.0)
    clock.now += 10
    assert lost.since(990) == 20
