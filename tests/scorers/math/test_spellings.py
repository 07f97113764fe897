"""An answer is found in whatever dress its line has, and no text is slow to respell."""

from __future__ import annotations

from contextlib import suppress

import pytest

from config.scorer_kinds import MathConfig
from scorers.math.answer_lines import answer_line
from scorers.math.notation import plain, respelled
from scorers.math.scorer import MathAnswer
from scorers.math.variants import MAX_CHARS, VARIANTS
from scorers.text.extract import Unanswered
from tests.scorers.math.spellings import MISSTATED, STATED
from tests.support.growth import is_linear
from tests.support.text_tables import Pair, listed

pytestmark = pytest.mark.process

PIECES = listed(r"""
\color{red}{¦{\color{red} ¦\phantom{¦\strut ¦x^{2_{¦^2_1¦1,\!¦1,\! 111¦\begin{aligned}¦\quad\qed
\left\{\begin{array}{l}¦\frac{\text{1}}¦{\rm ¦sqrt(¦exp(1,¦x**¦2^(¦(1,2) U ¦pi ¦17 mod ¦\over ¦{1 \over\u0020
\log_¦__a¦**a¦the ¦answer ¦answer: ¦####   ¦#### answer is ¦####⏎
""")


@pytest.mark.parametrize("row_type", STATED)
@pytest.mark.parametrize(("table", "value"), [(STATED, 1.0), (MISSTATED, 0.0)], ids=["stated", "misstated"])
def test_an_answer_is_found_in_whatever_dress_its_line_has_and_no_other(
    math_scorer: MathAnswer, row_type: str, table: dict[str, tuple[Pair, ...]], value: float
) -> None:
    scores = {
        (text, reference): math_scorer.score_text("so\n" + text.replace("⏎", "\n"), reference, row_type)
        for reference, text in table[row_type]
    }
    assert {pair: score.reason for pair, score in scores.items() if score.value != value} == {}


@pytest.mark.parametrize("piece", PIECES)
def test_no_text_is_slow_to_respell(piece: str) -> None:
    def respell(text: str) -> None:
        for spelled in (text, f"5{text}5", f"{{{text}}}.", f"\nAnswer: {text}", f"Answer:{text}\n=5"):
            plain(respelled(spelled))
            answer_line(spelled)
            with suppress(Unanswered):
                VARIANTS["gsm8k"].answer(spelled, MathConfig())

    assert is_linear(respell, lambda count: piece * count, MAX_CHARS // len(piece))
