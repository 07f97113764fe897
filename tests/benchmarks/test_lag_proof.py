"""The verdict of the proof of the lag's bound, on made-up reports."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.proofs.lag import as_table, verdict

pytestmark = pytest.mark.process

HELD = {"max_lag": 1, "steps": 40, "lag": 1, "dead": 1, "lost": 0, "twice": 0, "exit_code": 0} | {
    "wait_s": 31.25,
    "least_wait_s": 15.0,
    "most_wait_s": 37.0,
    "deadline_s": 30.0,
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "held"),
        ({"wait_s": 37.0}, "held"),  # at the bar
        ({"max_lag": 4}, "held"),
        ({"lag": 2, "exit_code": 1}, "NOT held: lag 2"),
        ({"lag": 0, "exit_code": 1}, "NOT held: lag 0 alone"),
        ({"wait_s": 37.5, "lost": 1}, "NOT held: a wait of 37.5 s, 1 lost"),
        # the stopped one's group was taken over
        ({"wait_s": 6.0, "exit_code": 1}, "NOT held: a wait of 6.0 s"),
        ({"exit_code": 1}, "NOT held: its test failed"),
    ],
)
def test_the_verdict_names_what_was_not_held(changes: dict[str, Any], said: str) -> None:
    assert verdict({**HELD, **changes}) == said


def test_the_table_has_a_row_for_each_bound_and_says_which_came_to_no_end() -> None:
    lines = as_table([0, 1], [{}, HELD])
    assert lines[2] == "| 0 | - | - | - | - | - | - | - | - | NOT held: it came to no end |"
    assert lines[3] == "| 1 | 40 | 1 | 31.2 | 30 | 37 | 1 | 0 | 0 | held |"
    assert lines[-1].startswith("**1 of 2 held**")
