"""Failures of plays are counted by what they have in common, and never by what a model wrote."""

from __future__ import annotations

import pytest

from agents import asking
from agents.asking import OTHER_FAILURES, EpisodeCounts

STEP = "task lake: the environment failed in step: "


@pytest.mark.parametrize(
    ("first", "second", "is_alike"),
    [
        (
            f"{STEP}KeyError: 'tea' (shop.py:12 in price)",
            f"{STEP}KeyError: 'rum' (shop.py:12 in price)",
            True,
        ),
        (
            f"{STEP}KeyError: 'tea' (shop.py:12 in price)",
            f"{STEP}KeyError: 'tea' (shop.py:20 in price)",
            False,
        ),
        (f"{STEP}ToolError: no tool a_1", f"{STEP}ToolError: no tool b_2", True),
        (f"{STEP}ToolError: no tool (a_1)", f"{STEP}ToolError: no tool (b_2)", True),
        (f"{STEP}ToolError: no tool", f"{STEP}ValueError: no tool", False),
        (f"{STEP}its process ended with exit code 1", f"{STEP}its process ended with exit code 2", False),
        (
            "no call was answered; the last was refused: a",
            "no call was answered; the last was refused: b",
            True,
        ),
    ],
)
def test_failures_are_alike_but_for_an_exceptions_message(first: str, second: str, *, is_alike: bool) -> None:
    counts = EpisodeCounts()
    assert [counts.add_failure(line) for line in (first, second)] == [1, 1 + is_alike]


def test_no_more_kinds_are_counted_apart_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MOST_FAILURES", 3)
    counts = EpisodeCounts()
    found = [counts.add_failure(f"{STEP}no tool {number}") for number in (0, 1, 2, 3, 4, 1)]
    assert (found, len(counts.failures)) == ([1, 1, 1, 1, 2, 2], 4)
    assert counts.failures[OTHER_FAILURES] == 2
