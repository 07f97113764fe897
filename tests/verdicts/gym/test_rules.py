"""What an answer can be before reasoning-gym is asked, and what of the library's value counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.text_tables import right_and_wrong
from verdicts.gym.rows import DataSet, GymRow
from verdicts.gym.rules import counted, refusal


def of(dataset: str, answer: str | None, **metadata: Any) -> GymRow:
    return GymRow(
        dataset=DataSet(name=dataset, module=f"reasoning_gym.{dataset}", packages=()),
        metadata=metadata,
        entry={"question": "?", "answer": answer, "metadata": metadata},
        example=answer,
    )


# A data set, its own answer and metadata: what an answer to it can be, and what it can't.
SHAPES = right_and_wrong(r"""
# number_sorting "['1', '2']"
[1, 2]¦['1', '2.0']
✗[NaN, NaN]¦["inf", "inf"]¦1 then 2
# quantum_lock "A \u2192 B"
A \u2192 B¦a, b¦A->B
✗pass¦I press A and B¦\u2192 D
# gsm_symbolic "96"
96¦3.5¦96 kids
✗95 96¦none¦1 2 3¦-96¦\u221296 kids
# gsm_symbolic "-96"
-96¦96
✗95 -96
# fraction_simplification "$\\frac{131}{319}$"
131/319¦\frac{131}{319}¦$\dfrac{1}{2}$
✗\frac{131}{319} or 7¦131¦\frac{131}{319}\frac{1}{2}¦-131/319/1
# decimal_arithmetic "0.000432"
0.000432¦4.32e-4¦0.0004321
✗0¦0.001¦0.0005¦nan¦inf
# decimal_arithmetic "2.98141124210"
2.98141124210¦2.9814
✗2.9850¦2.98 or 2.99
# spell_backward "gnisu"
gnisu¦GNISU¦using
✗gnisu or using¦gnisugnisu¦gnisu.
# letter_jumble "two days"
two days¦two¦days two
✗two days or more¦TWO DAYS!
# rubiks_cube null
R U' L2¦Rw F
✗R999999999¦R U (L¦R\u0661\u0662\u0663 U
# polynomial_equations "-2.0, 2.0"
2, -2¦1e-3
✗nan¦x = 2¦""
# polynomial_equations ""
""¦''
✗none¦0¦I don't know
# countdown "1 + 2", {"numbers": [1, 2]}
1 + 2¦2*1¦-1*(2)
✗1.2¦12¦1**2¦2//1¦1 + 1 + 1
# intermediate_integration "x"
exp(-x)*log(x)/2.5¦C + x^2¦pi*sqrt(2)
✗x.args¦Symbol('x')¦N(x)¦x[0]¦__x¦1_0¦Derivative(x)¦x,¦x;x¦x²¦S
""")
SHAPES.append(("rush_hour null", ("A+1 BB-2", "A+1,C-10"), ("A+1 then B-2", "A+100", "A+1 " * 201, "AAA+1")))


def test_what_an_answer_can_be_is_told_before_the_library_reads_it() -> None:
    failed = []
    for kind, right, refused in SHAPES:
        dataset, _, told = kind.partition(" ")
        answer, metadata = [*json.loads(f"[{told}]"), {}][:2]
        row = of(dataset, answer, **metadata)
        failed += [(kind, text, reason) for text in right if (reason := refusal(text, row))]
        failed += [
            (kind, text, "not refused") for text in (*refused, "", "1" * 60_000) if refusal(text, row) is None
        ]
    assert failed == []


def test_a_value_counts_in_full_or_if_asked_for_in_part(subtests: pytest.Subtests) -> None:
    for value, partial, worth in [
        (1.0, False, 1.0), (0.999, False, 0.0), (0.999, True, 0.999), (0.1, True, 0.0), (0.05, True, 0.0),
        (0.0, True, 0.0), (1.5, False, 0.0), (-0.5, True, 0.0), (float("nan"), True, 0.0),
        (float("inf"), False, 0.0),
    ]:  # fmt: skip
        with subtests.test(value=value, partial=partial):
            assert counted(value, "6", of("gcd", "5"), partial=partial) == worth


def test_a_text_that_only_holds_the_answer_is_worth_nothing_in_part(subtests: pytest.Subtests) -> None:
    for answer, gold in [
        ("I don't know", "no"), ("yes, no, unknown", "no"), ("1,043 or 7", "1043"), ("a1 or b2", "B2")
    ]:  # fmt: skip
        with subtests.test(answer=answer, gold=gold):
            share = len(gold) / len(answer.replace(",", "") if "," in answer and "043" in answer else answer)
            assert counted(share, answer, of("syllogism", gold), partial=True) == 0.0
            assert counted(0.5, answer, of("syllogism", gold), partial=True) == 0.5
