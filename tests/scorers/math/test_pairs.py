"""Right answers score 1 and wrong ones 0: other forms, spellings, and what a comparison as a whole would pay.

With every change every sixteenth pair of each kind, by prime's rule too; `make prove-suite` has the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

import pytest
from _pytest.mark.structures import ParameterSet

from scorers.math.scorer import MathAnswer
from tests.scorers.math import corpus, forms, kinds, spellings
from tests.support.judged_here import Pair, misjudged
from tests.support.text_tables import listed

pytestmark = [pytest.mark.process, pytest.mark.together("mathematics")]

RIGHT = {
    "form": forms.pairs(forms.RIGHT),
    "spelling": spellings.RIGHT,
    "kind": kinds.RIGHT,
    "people's": {"any": corpus.HONEST},
}
WRONG = {
    "form": forms.pairs(forms.NEAR),
    "spelling": spellings.WRONG,
    "kind": kinds.WRONG,
    "people's": {"any": corpus.WRONG},
}
SHARE = 16
# Prime's rule keeps the order of a list, and takes no list for a list of names.
IN_THEIR_ORDER = listed(r"""
lists of equations¦equations that words or spaces join¦lists of quantities¦relations
words, joints and brackets as people write them¦signs, marks and joints that math-verify drops
what math-verify takes for a constant, and names and brackets of lists
""")


def _cases() -> Iterator[ParameterSet]:
    for tables, value in ((RIGHT, 1.0), (WRONG, 0.0)):
        for table, of_kind in tables.items():
            for kind, pairs in of_kind.items():
                others = tuple(pair for number, pair in enumerate(pairs) if number % SHARE)
                for row_type in ("math", "prime_math"):
                    if row_type != "math" and (table != "kind" or (value and kind in IN_THEIR_ORDER)):
                        continue
                    name = f"{table} {kind} {row_type} {value}"
                    yield pytest.param(pairs[::SHARE], value, row_type, id=name)
                    yield pytest.param(others, value, row_type, id=f"{name}, others", marks=pytest.mark.prove)


@pytest.mark.parametrize(("pairs", "value", "row_type"), [*_cases()])
def test_a_right_answer_of_a_kind_scores_1_and_a_wrong_one_0(
    math_scorer: MathAnswer, pairs: tuple[Pair, ...], value: float, row_type: str
) -> None:
    assert misjudged(math_scorer, pairs, value, row_type) == {}


def test_no_pair_stands_twice_in_the_tables() -> None:
    counts = Counter(
        chain.from_iterable(
            pairs for tables in (RIGHT, WRONG) for table in tables.values() for pairs in table.values()
        )
    )
    assert [pair for pair, count in counts.items() if count > 1] == []
