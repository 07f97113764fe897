"""Conclusions in propositional logic: what says more than the premises is one, and what repeats them is none."""

from __future__ import annotations

import json
import time
from itertools import pairwise

import pytest

from tests.support.text_tables import listed
from tests.verdicts.gym.asking import row_of, worth
from tests.verdicts.gym.corpus import gym
from tests.verdicts.gym.looks_at_logic import CASES, logic_row, signs
from verdicts.gym.logic import NoFormula, conclusion, parsed

NO_FORMULAS = (
    *listed(r"""
Q | or not¦Q or not¦P & Q | x¦P & Q.¦P & Q, or not¦PQ¦(P & Q¦P & Q)¦P &¦& P¦P ~ Q¦P Q¦¦()¦P & T¦not P
P \u2227\u2227 Q¦P & q¦P & Q # no¦therefore P & Q
"""),
    "P" + " & Q" * 200, "(" * 5000 + "P" + ")" * 5000, "~" * 30_000 + "P",
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: " and ".join(case[0]))
def test_what_repeats_premises_is_no_conclusion(case: tuple[list[str], str, list[str], list[str]]) -> None:
    premises, example, right, repeated = case
    row = logic_row(premises, example)
    failed = [f"refused: {formula}" for formula in right if worth(row, signs(formula)) != 1.0]
    failed += [f"paid: {formula}" for formula in repeated if worth(row, signs(formula)) != 0.0]
    failed += [
        f"paid in part: {formula}" for formula in repeated if worth(row, signs(formula), partial=True) != 0.0
    ]
    assert not failed, "\n".join(failed)


def test_what_is_no_formula_is_no_conclusion_and_is_told_at_once() -> None:
    row = logic_row(["P & Q"], "(P = Q)")
    started = time.process_time()
    assert [text[:30] for text in NO_FORMULAS if worth(row, signs(text)) != 0.0] == []
    assert time.process_time() - started < 5


def test_the_rows_own_conclusion_is_right_even_where_it_is_a_premise() -> None:
    row = logic_row(["R", "R", "~P"], "~P")
    assert [worth(row, signs(text)) for text in ("~P", "(~P)", " ( ~P ) ")] == [1.0, 1.0, 1.0]
    assert [worth(row, signs(text)) for text in ("R", "R & R", "~P & R", "~~~P")] == [0.0, 0.0, 0.0, 0.0]


def test_signs_bind_as_the_library_has_them(subtests: pytest.Subtests) -> None:
    for text, same in (
        ("P = Q > R | S & P", "P = (Q > (R | (S & P)))"),
        ("P > Q > R", "(P > Q) > R"),
        ("~P & Q", "(~P) & Q"),
        ("P = Q = R", "(P = Q) = R"),
    ):
        with subtests.test(text=text):
            assert parsed(signs(text), "PQRS") == parsed(signs(same), "PQRS")
    with pytest.raises(NoFormula, match="no variable"):
        parsed("P", "Q")


def test_a_row_of_many_variables_is_looked_at_in_milliseconds() -> None:
    variables = [chr(ord("A") + number) for number in range(16)]
    premises = [signs(f"({one} | {other})") for one, other in pairwise(variables)]
    row = row_of(
        gym(
            "propositional_logic",
            None,
            premises=premises[:12],
            variables=variables,
            example_answer=json.dumps("A"),
        )
    )
    started = time.process_time()
    assert conclusion(premises[3], row) == "it repeats a premise"
    assert conclusion(signs("A & B"), row) is not None
    assert time.process_time() - started < 1
