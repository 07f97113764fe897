"""An honest spelling scores 1 whatever its dress, and a wrong answer in the same dress 0."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import chain

import pytest

from config.scorer_kinds import MathConfig
from scorers.math.answer_lines import answer_line
from scorers.math.notation import plain, respelled
from scorers.math.scorer import MathAnswer
from scorers.math.variants import MAX_CHARS, VARIANTS
from scorers.text.extract import Unanswered
from tests.scorers.math.spellings import MISSTATED, RIGHT, STATED, WRONG, Pairs
from tests.support.judged_here import misjudged

pytestmark = pytest.mark.process


@pytest.mark.parametrize("kind", RIGHT)
def test_an_honest_spelling_scores_1_and_a_wrong_answer_in_its_dress_0(
    math_scorer: MathAnswer, kind: str
) -> None:
    assert misjudged(math_scorer, [pair[::-1] for pair in RIGHT[kind]], 1.0) == {}
    assert misjudged(math_scorer, [pair[::-1] for pair in WRONG[kind]], 0.0) == {}


def test_each_kind_has_ten_of_both() -> None:
    assert RIGHT.keys() == WRONG.keys()
    assert {name for table in (RIGHT, WRONG) for name, pairs in table.items() if len(pairs) < 10} == set()
    pairs = list(chain(*RIGHT.values(), *WRONG.values()))
    assert len(set(pairs)) == len(pairs)


@pytest.mark.parametrize("row_type", STATED)
@pytest.mark.parametrize(("table", "value"), [(STATED, 1.0), (MISSTATED, 0.0)], ids=["stated", "misstated"])
def test_an_answer_is_found_in_whatever_dress_its_line_has_and_no_other(
    math_scorer: MathAnswer, row_type: str, table: dict[str, Pairs], value: float
) -> None:
    scores = {
        (text, reference): math_scorer.score_text(text, reference, row_type)
        for text, reference in table[row_type]
    }
    assert {pair: score.reason for pair, score in scores.items() if score.value != value} == {}


@pytest.mark.parametrize(
    "piece",
    [
        "\\color{red}{",
        "{\\color{red} ",
        "\\phantom{",
        "\\strut ",
        "x^{2_{",
        "^2_1",
        "1,\\!",
        "1,\\! 111",
        "\\begin{aligned}",
        "\\left\\{\\begin{array}{l}",
        "\\quad\\qed",
        "\\frac{\\text{1}}",
        "{\\rm ",
        "sqrt(",
        "exp(1,",
        "x**",
        "2^(",
        "(1,2) U ",
        "pi ",
        "17 mod ",
        "\\over ",
        "{1 \\over ",
        "\\log_",
        "__a",
        "**a",
        "the ",
        "answer ",
        "answer: ",
        "####   ",
        "#### answer is ",
        "####\n",
    ],
)
def test_no_text_is_slow_to_respell(piece: str) -> None:
    """In quadratic time one of these took seconds."""
    text = piece * (MAX_CHARS // len(piece))
    started = time.process_time()
    for spelled in (text, f"5{text}5", f"{{{text}}}.", f"\nAnswer: {text}", f"Answer:{text}\n=5"):
        plain(respelled(spelled))
        answer_line(spelled)
        with suppress(Unanswered):
            VARIANTS["gsm8k"].answer(spelled, MathConfig())
    assert time.process_time() - started < 1.0
