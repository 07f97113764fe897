"""The options of the swe scorer that are off by default, each alone."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from broker.messages import Score
from config.scorer_kinds import SweConfig
from config.scorers import ScorersConfig, TaskConfig
from scorers.reward.combine import combine_scores, reward
from scorers.swe.scorer import SwePatch
from tests.scorers.swe.texts import (
    ADD,
    ADD_FIXED,
    ADD_ROW,
    DIFF,
    PATCH_ROW,
    RIGHT_EDIT,
    SORT,
    SORT_FIXED,
    SORT_FIXED_HEAD,
    SORT_HEAD,
    SORT_ROW,
    Row,
    edit,
    edits,
    fenced,
    solution,
    whole,
)  # fmt: skip

pytestmark = pytest.mark.process


def scored(text: str, row: Row, **options: Any) -> Score:
    with closing(SwePatch(SweConfig(**options), ScorersConfig())) as swe:
        return swe.score(text, row)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (SORT_ROW, solution(edit("b.py", SORT_HEAD, SORT_HEAD + " "))),
        (whole(SORT, SORT_FIXED), fenced(SORT.replace(":\n", ": \n"))),
        (PATCH_ROW, DIFF.replace("+Hello World", "+Hello world ").replace("changed lines", "lines ")),
    ],
)
def test_an_edit_that_does_nothing_at_the_right_place_is_the_floor(
    swe_scorer: SwePatch, row: Row, text: str
) -> None:
    assert (swe_scorer.score(text, row).value or 0.0) > 0.7
    assert scored(text, row, subtract_floor=True).value == 0.0


def test_what_is_above_the_floor_is_stretched(swe_scorer: SwePatch) -> None:
    text = solution(edit("b.py", SORT_HEAD, "def sort_list(lst: list):"))
    floor = 0.8663101604278075
    score = scored(text, SORT_ROW, subtract_floor=True)
    assert score.value == pytest.approx((0.90625 - floor) / (1 - floor))


@pytest.mark.parametrize(
    ("row", "text", "is_gated"),
    [
        (ADD_ROW, fenced(ADD_FIXED + ")"), True),
        (ADD_ROW, fenced(ADD_FIXED + ")", tag="text"), True),  # a tag does not hide it
        (ADD_ROW, fenced("def add_plus_one(a, b):\nreturn 1"), True),
        (whole(ADD + ")", ADD_FIXED), fenced(ADD + "]"), False),  # it was no Python before
        (whole("{ int a; }", "{ int b; }"), fenced("{ int c; "), False),
        (SORT_ROW, solution(edit("b.py", SORT_HEAD, SORT_FIXED_HEAD + "(")), True),
        (SORT_ROW, solution(edit("b.py", SORT_HEAD, "def sort_list(lst: list):")), False),
        (edits({"b.c": SORT}, {"b.c": SORT_FIXED}), solution(edit("b.c", SORT_HEAD, SORT_HEAD + "(")), False),
        (PATCH_ROW, DIFF.replace("World", "("), False),
    ],
)
def test_a_python_file_that_is_broken_is_0(swe_scorer: SwePatch, row: Row, text: str, is_gated: bool) -> None:
    without, gated = swe_scorer.score(text, row).value, scored(text, row, syntax_gate=True)
    assert without
    assert gated.value == (0.0 if is_gated else without)
    assert ("breaks" in gated.reason) == is_gated


@pytest.mark.parametrize(
    ("text", "paid"),
    [("", -1.0), ("I don't know", -1.0), (fenced(ADD), 0.0), (fenced(ADD_FIXED), 1.0), ("<think>x", -1.0)],
)
def test_the_penalty_is_a_reward_and_never_a_score(
    strict_swe_scorer: SwePatch, text: str, paid: float
) -> None:
    task = TaskConfig(scorer=SweConfig(format_penalty=True))
    score = strict_swe_scorer.score(text, ADD_ROW)
    total, got = reward(task, combine_scores(task, score, {}), None, [])
    assert got == paid
    assert total.value == max(paid, 0.0)
    assert total.components == {"edit": 0.0 if paid < 0 else 1.0, "swe": total.value}
    assert reward(TaskConfig(scorer=SweConfig()), score, None, [])[1] == max(paid, 0.0)


def test_an_empty_search_inserts_everywhere_as_swe_rl_has_it() -> None:
    score = scored(solution(edit("b.py", "", "# x")), SORT_ROW, compatible=True)
    assert score.value == pytest.approx(0.5555555555555556)


def test_a_thought_can_be_optional() -> None:
    assert scored(f"<solution>{RIGHT_EDIT}</solution>", SORT_ROW, think="optional").value == 1.0
