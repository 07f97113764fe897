"""Conclusions in propositional logic that reasoning-gym pays in full: those that say more than the premises, and others."""

from __future__ import annotations

from typing import Any, Final

from tests.support.text_tables import listed
from tests.verdicts.gym.corpus import Look, gym

# Premises, an example, right conclusions, and what follows as well and is none. ~ & | > = stand for the signs.
CASES = (
    (
        ["(P & R)", "Q"],
        "(P = R)",
        listed(r"(P = R)¦P & Q¦Q & R¦R | ~Q¦P > R¦~P | Q & R¦(Q > P)¦~(~P | ~Q)¦P = Q¦R & (Q > P)"),
        listed(r"""
(P & R)¦R & P¦((P) & (R))¦P & R & Q¦Q & (R & P)¦(P & R) & (P & R)¦~~(P & R)¦~(~P | ~R)¦(P & R) | Q
(P & R) | ~Q¦Q > (P & R)¦~Q > (R & P)¦(P & R) & (Q | ~Q)¦(P & R) | (Q & ~Q)¦(P & R) & (P | Q)
(P & R) = (Q | ~Q)¦~(P > ~R)¦Q & Q¦Q | Q¦~~Q & (P | ~P)
"""),
    ),
    (
        ["(P > Q)", "P"],
        "(Q | R)",
        listed(r"(Q | R)¦P & Q¦Q & (P > Q) & P¦P = Q¦Q | ~P & R¦R > Q¦~(P & ~Q) & Q¦(R | P) & Q¦P | R¦Q > P"),
        listed(r"""
P > Q¦~P | Q¦Q | ~P¦~Q > ~P¦~(P & ~Q)¦P & (P > Q)¦(P > Q) & (P > Q)¦P > (Q | R)¦R > (P > Q)¦~R | ~P | Q
(P > Q) | R¦P & P¦P & (P | R)¦P & (~Q > ~P)¦~~P & ~~(P > Q)¦(P > Q) = (R | ~R)
"""),
    ),
    (
        ["~(Q | S)", "(S | P)"],
        "(P & ~Q)",
        ["(P & ~Q)", "P & ~S", "P = ~S", "~Q & P", "S > P", "Q > P", "~S | Q", "~Q | P", "Q = S", "~(Q = P)"],
        listed(r"""
~(Q | S)¦~(S | Q)¦~Q & ~S¦~S & ~Q¦~~~(Q | S)¦S | P¦P | S¦~S > P¦~P > S¦(S | P) & ~(Q | S)¦(S | P) | Q
S | P | Q¦Q > (S | P)¦~(Q | S) | P¦(P | S) & (S | P)
"""),
    ),
    (
        ["P", "~P", "Q"],
        "(P | R)",
        listed(r"(P | R)¦~P | R¦Q | R¦Q & P | R¦Q > P¦P > Q¦R > P¦P & Q | R¦~P = Q¦Q & ~P | R"),
        listed(r"R & S¦~(P | R)¦R & ~R | S¦~Q | S¦~(Q | R)¦S > R¦(R = S)¦R | S¦~R & Q¦P & ~P¦~Q & ~R"),
    ),
)


def signs(text: str) -> str:
    return text.translate(str.maketrans("~&|>=", "\u00ac\u2227\u2228\u2192\u2194"))


def logic_row(premises: list[str], example: str) -> dict[str, Any]:
    return gym(
        "propositional_logic",
        None,
        premises=[signs(premise) for premise in premises],
        variables=["P", "Q", "R", "S"],
        example_answer=signs(example),
    )


LOGIC: Final[tuple[Look, ...]] = tuple(
    (logic_row(premises, example), tuple(map(signs, right)), tuple(map(signs, wrong)))
    for premises, example, right, wrong in CASES
)
