"""Conclusions in propositional logic: what says more than the premises is one, and what repeats them is none."""

from __future__ import annotations

import json
import time
from itertools import pairwise

import pytest

from scorers.gym.logic import NoFormula, conclusion, parsed
from tests.scorers.gym.corpus import gym
from tests.scorers.gym.test_second_look import row_of, worth

# Premises, an example, right conclusions, and what follows as well and is none. ~ & | > = stand for the signs.
CASES = (
    (
        ["(P & R)", "Q"],
        "(P = R)",
        [
            "(P = R)",
            "P & Q",
            "Q & R",
            "R | ~Q",
            "P > R",
            "~P | Q & R",
            "(Q > P)",
            "~(~P | ~Q)",
            "P = Q",
            "R & (Q > P)",
        ],
        [
            "(P & R)",
            "R & P",
            "((P) & (R))",
            "P & R & Q",
            "Q & (R & P)",
            "(P & R) & (P & R)",
            "~~(P & R)",
            "~(~P | ~R)",
            "(P & R) | Q",
            "(P & R) | ~Q",
            "Q > (P & R)",
            "~Q > (R & P)",
            "(P & R) & (Q | ~Q)",
            "(P & R) | (Q & ~Q)",
            "(P & R) & (P | Q)",
            "(P & R) = (Q | ~Q)",
            "~(P > ~R)",
            "Q & Q",
            "Q | Q",
            "~~Q & (P | ~P)",
        ],
    ),
    (
        ["(P > Q)", "P"],
        "(Q | R)",
        [
            "(Q | R)",
            "P & Q",
            "Q & (P > Q) & P",
            "P = Q",
            "Q | ~P & R",
            "R > Q",
            "~(P & ~Q) & Q",
            "(R | P) & Q",
            "P | R",
            "Q > P",
        ],
        [
            "P > Q",
            "~P | Q",
            "Q | ~P",
            "~Q > ~P",
            "~(P & ~Q)",
            "P & (P > Q)",
            "(P > Q) & (P > Q)",
            "P > (Q | R)",
            "R > (P > Q)",
            "~R | ~P | Q",
            "(P > Q) | R",
            "P & P",
            "P & (P | R)",
            "P & (~Q > ~P)",
            "~~P & ~~(P > Q)",
            "(P > Q) = (R | ~R)",
        ],
    ),
    (
        ["~(Q | S)", "(S | P)"],
        "(P & ~Q)",
        ["(P & ~Q)", "P & ~S", "P = ~S", "~Q & P", "S > P", "Q > P", "~S | Q", "~Q | P", "Q = S", "~(Q = P)"],
        [
            "~(Q | S)",
            "~(S | Q)",
            "~Q & ~S",
            "~S & ~Q",
            "~~~(Q | S)",
            "S | P",
            "P | S",
            "~S > P",
            "~P > S",
            "(S | P) & ~(Q | S)",
            "(S | P) | Q",
            "S | P | Q",
            "Q > (S | P)",
            "~(Q | S) | P",
            "(P | S) & (S | P)",
        ],
    ),
    (
        ["P", "~P", "Q"],
        "(P | R)",
        [
            "(P | R)",
            "~P | R",
            "Q | R",
            "Q & P | R",
            "Q > P",
            "P > Q",
            "R > P",
            "P & Q | R",
            "~P = Q",
            "Q & ~P | R",
        ],
        [
            "R & S",
            "~(P | R)",
            "R & ~R | S",
            "~Q | S",
            "~(Q | R)",
            "S > R",
            "(R = S)",
            "R | S",
            "~R & Q",
            "P & ~P",
            "~Q & ~R",
        ],
    ),
)
NO_FORMULAS = (
    "Q | or not",
    "Q or not",
    "P & Q | x",
    "P & Q.",
    "P & Q, or not",
    "PQ",
    "(P & Q",
    "P & Q)",
    "P &",
    "& P",
    "P ~ Q",
    "P Q",
    "",
    "()",
    "P & T",
    "not P",
    "P \u2227\u2227 Q",
    "P & q",
    "P & Q # no",
    "therefore P & Q",
    "P" + " & Q" * 200,
    "(" * 5000 + "P" + ")" * 5000,
    "~" * 30_000 + "P",
)


def signs(text: str) -> str:
    """Return a formula in the row's signs."""
    return text.translate(str.maketrans("~&|>=", "\u00ac\u2227\u2228\u2192\u2194"))


def logic_row(premises: list[str], example: str) -> dict[str, object]:
    return gym(
        "propositional_logic",
        None,
        premises=[signs(premise) for premise in premises],
        variables=["P", "Q", "R", "S"],
        example_answer=signs(example),
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: " and ".join(case[0]))
def test_what_repeats_premises_is_no_conclusion_however_it_is_written(
    case: tuple[list[str], str, list[str], list[str]],
) -> None:
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
    started = time.monotonic()
    assert [text[:30] for text in NO_FORMULAS if worth(row, signs(text)) != 0.0] == []
    assert time.monotonic() - started < 5


def test_the_rows_own_conclusion_is_right_even_where_it_is_a_premise() -> None:
    row = logic_row(["R", "R", "~P"], "~P")
    assert [worth(row, signs(text)) for text in ("~P", "(~P)", " ( ~P ) ")] == [1.0, 1.0, 1.0]
    assert [worth(row, signs(text)) for text in ("R", "R & R", "~P & R", "~~~P")] == [0.0, 0.0, 0.0, 0.0]


def test_signs_bind_as_the_library_has_them() -> None:
    for text, same in (
        ("P = Q > R | S & P", "P = (Q > (R | (S & P)))"),
        ("P > Q > R", "(P > Q) > R"),
        ("~P & Q", "(~P) & Q"),
        ("P = Q = R", "(P = Q) = R"),
    ):
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
    started = time.monotonic()
    assert conclusion(premises[3], row) == "it repeats a premise"
    assert conclusion(signs("A & B"), row) is not None
    assert time.monotonic() - started < 1
