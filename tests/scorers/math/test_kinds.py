"""What a comparison as a whole would pay gets nothing, kind by kind, and what is right gets everything."""

from __future__ import annotations

import pytest

from scorers.math.scorer import MathAnswer
from tests.scorers.math.kinds import KINDS
from tests.support.judged_here import misjudged

FEWEST = 10
IN_THEIR_ORDER = (  # prime's rule keeps the order of a list, and takes no list for a list of names
    "lists of equations",
    "equations that words or spaces join",
    "lists of quantities",
    "relations",
    "words, joints and brackets as people write them",
    "signs, marks and joints that math-verify drops",
    "what math-verify takes for a constant, and names and brackets of lists",
)


@pytest.mark.parametrize("row_type", ["math", "prime_math"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_wrong_answer_of_a_kind_is_paid(math_scorer: MathAnswer, kind: str, row_type: str) -> None:
    assert len(KINDS[kind].wrong) >= FEWEST
    assert misjudged(math_scorer, KINDS[kind].wrong, 0.0, row_type) == {}


@pytest.mark.parametrize("kind", KINDS)
def test_no_right_answer_of_a_kind_is_refused(math_scorer: MathAnswer, kind: str) -> None:
    assert misjudged(math_scorer, KINDS[kind].right, 1.0, "math") == {}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in IN_THEIR_ORDER])
def test_nor_by_the_rule_of_prime(math_scorer: MathAnswer, kind: str) -> None:
    assert misjudged(math_scorer, KINDS[kind].right, 1.0, "prime_math") == {}
