"""An answer is found in whatever dress its line has, and no text is slow to respell."""

from __future__ import annotations

from contextlib import suppress
from itertools import count

import pytest

from config.scorer_kinds import MathConfig
from scorers.math.answer_lines import answer_line
from scorers.math.notation import plain, respelled
from scorers.math.scorer import MathAnswer
from scorers.math.spelling.lists import with_joints
from scorers.math.variants import MAX_CHARS, VARIANTS
from scorers.text.extract import Unanswered
from tests.scorers.math.spellings import MISSTATED, STATED
from tests.support.growth import is_linear
from tests.support.text_tables import Pair, listed, paired

pytestmark = [pytest.mark.process, pytest.mark.together("mathematics")]

PIECES = listed(r"""
\color{red}{¦{\color{red} ¦\phantom{¦\strut ¦x^{2_{¦^2_1¦1,\!¦1,\! 111¦\begin{aligned}¦\quad\qed
\left\{\begin{array}{l}¦\frac{\text{1}}¦{\rm ¦sqrt(¦exp(1,¦x**¦2^(¦(1,2) U ¦pi ¦17 mod ¦\over ¦{1 \over\u0020
\log_¦__a¦**a¦the ¦answer ¦answer: ¦####   ¦#### answer is ¦####⏎
""")


# A wide space, and what stands for it: a comma where it joins two statements or a value, a space where nothing is said.
JOINED = paired(r"""
x=1\quad y=2 <== x=1, y=2 ;; x=1⏎y=2 <== x=1, y=2 ;; 5\quad 6 <== 5, 6 ;; x=\quad 5 <== x= 5 ;; 5⏎6 <== 5⏎6
x=1\quad y\quad 3 <== x=1\quad y, 3 ;; a\quad b=1\quad c=2\quad d <== a\quad b=1, c=2\quad d ;; f:\quad 5 <== f: 5
5\quad y=2 <== 5\quad y=2 ;; \text{so}\quad 5 <== \text{so} 5 ;; \text{so\quad 5 <== \text{so, 5
\text{so 1⏎=}\quad y=2 <== \text{so 1⏎=} y=2 ;; \text{\alpha⏎b\quad 5} 1\quad 2 <== \text{\alpha b, 5} 1, 2
""")


def test_a_wide_space_joins_two_statements_and_no_other() -> None:
    assert [(text, with_joints(text)) for text, _ in JOINED] == [*JOINED]


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


@pytest.mark.prove(after=5)
@pytest.mark.parametrize("piece", PIECES)
def test_no_text_is_slow_to_respell(piece: str) -> None:
    numbers = count()  # what was respelled before is remembered

    def respell(text: str) -> None:
        end = f"{text}{next(numbers)}"
        for spelled in (
            *(end, f"5{end}", f"{{{text}}}.{next(numbers)}", f"\nAnswer: {end}"),
            f"Answer:{text}\n={next(numbers)}",
        ):
            plain(respelled(spelled))
            answer_line(spelled)
            with suppress(Unanswered):
                VARIANTS["gsm8k"].answer(spelled, MathConfig())

    assert is_linear(respell, piece.__mul__, MAX_CHARS // len(piece))
