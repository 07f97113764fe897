"""Check conclusions in propositional logic: whether they are formulas, and say more than the premises do.

In: an answer that the library gives full marks, and its row. Out: why it is not a conclusion, or None. Called by
`verdicts.gym.second_look`. The library reads any words as one more variable, and accepts everything that follows from
the premises, so that each premise counts as a conclusion. Formulas are compared by their tables of truth values, stored
as bits of a number. So a repeated premise is found in any notation, joined with others, after a double negation, or
weakened by an `or`. A part of a premise, and a premise of a single variable with another formula after `or`, are
conclusions, like the library's own. If premises contradict each other, everything follows from them; a conclusion has
to follow from premises that do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from verdicts.gym.rows import GymRow

NOT, AND, OR, IMPLIES, IFF = "\u00ac", "\u2227", "\u2228", "\u2192", "\u2194"
_BINDING: Final = (
    IFF,
    IMPLIES,
    OR,
    AND,
)  # the loosest first; each is read from the left, as the library does
_TOKEN: Final = re.compile(r"\s*([A-Z()\u00ac\u2227\u2228\u2192\u2194])\s*")
_MOST_SIGNS: Final = 100  # operators and brackets of one formula
_MOST_VARIABLES: Final = 16  # whose tables are computed
_MOST_PREMISES: Final = 12  # whose subsets are checked


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula: a variable, or an operator with one or two formulas."""

    sign: str
    parts: tuple[Formula, ...] = ()


class NoFormula(Exception):
    """The text is not a formula."""


def conclusion(answer: str, row: GymRow) -> str | None:
    """Refuse texts that are not formulas, and formulas that only repeat premises, except the row's own."""
    variables = sorted(map(str, row.metadata["variables"]))
    try:
        formula = parsed(answer, variables)
    except NoFormula as error:
        return f"it is no formula: {error}"
    if row.example is not None and _bare(answer) == _bare(row.example):
        return None
    try:
        premises = [parsed(str(premise), variables) for premise in row.metadata["premises"]]
    except NoFormula:
        return None  # the row's own premises are no formulas; the library has read them
    if len(variables) > _MOST_VARIABLES or len(premises) > _MOST_PREMISES:
        return None
    tables = _Tables(variables)
    if tables.is_repeated(formula, premises):
        return "it repeats a premise"
    return None if tables.is_founded(formula, premises) else "it follows from a contradiction alone"


def parsed(text: str, variables: Iterable[str]) -> Formula:
    """Return the formula that a whole text is. Raises NoFormula."""
    tokens, position = [], 0
    while position < len(text):
        if (token := _TOKEN.match(text, position)) is None:
            raise NoFormula(f"{text[position : position + 20]!r}")
        tokens.append(token[1])
        position = token.end()
    if sum(not token.isalpha() for token in tokens) > _MOST_SIGNS:
        raise NoFormula("it is too long")
    reader = _Reader(tokens, frozenset(variables))
    formula = reader.read(0)
    if reader.left:
        raise NoFormula(f"{reader.left[-1]!r} is too much")
    return formula


class _Reader:
    """Read a formula's tokens; the first one is last in `left`."""

    def __init__(self, tokens: list[str], variables: frozenset[str]) -> None:
        self.left = tokens[::-1]
        self._variables = variables

    def read(self, binding: int) -> Formula:
        """Read operators of this binding strength, and of all stronger ones."""
        if binding == len(_BINDING):
            return self._tightest()
        formula = self.read(binding + 1)
        while self.left and self.left[-1] == _BINDING[binding]:
            formula = Formula(self.left.pop(), (formula, self.read(binding + 1)))
        return formula

    def _tightest(self) -> Formula:
        first = self.left.pop() if self.left else "its end"
        if first == NOT:
            return Formula(NOT, (self._tightest(),))
        if first == "(":
            formula = self.read(0)
            if not self.left or self.left.pop() != ")":
                raise NoFormula("a bracket is open")
            return formula
        if first not in self._variables:
            raise NoFormula(f"{first!r} is no variable of the row")
        return Formula(first)


class _Tables:
    """Tables of truth values over a row's variables: bit i is the value under assignment i."""

    def __init__(self, variables: list[str]) -> None:
        self._true = (1 << (1 << len(variables))) - 1
        self._of_variable = {
            name: self._true // ((1 << (1 << place)) + 1) << (1 << place)
            for place, name in enumerate(variables)
        }
        self._literals = {
            side for table in self._of_variable.values() for side in (table, self._true ^ table)
        } | {self._true}

    def of(self, formula: Formula) -> int:
        """Return the table of a formula."""
        parts = [self.of(part) for part in formula.parts]
        match formula.sign:
            case "\u00ac":
                return self._true ^ parts[0]
            case "\u2227":
                return parts[0] & parts[1]
            case "\u2228":
                return parts[0] | parts[1]
            case "\u2192":
                return (self._true ^ parts[0]) | parts[1]
            case "\u2194":
                return self._true ^ parts[0] ^ parts[1]
            case name:
                return self._of_variable[name]

    def is_repeated(self, formula: Formula, premises: list[Formula]) -> bool:
        """Return whether each statement of a formula is in the premises, or is weaker than a whole premise."""
        stated = {self.of(part): self._alternatives(part) for part in _statements(formula, is_true=True)}
        stated.pop(self._true, None)
        whole = {self.of(one): {self.of(part) for part in _statements(one, is_true=True)} for one in premises}
        covered = set()
        for table, parts in whole.items():
            if table in stated or parts <= stated.keys():
                covered |= {table, *parts}
        # A premise with another formula after `or`; if it is one variable, that is a conclusion like the library's own.
        weaker = [{self.of(one)} for one in premises] + [self._alternatives(one) for one in premises]
        weaker = [clause for clause in weaker if not clause <= self._literals or len(clause) > 1]
        return all(
            any(old & ~table == 0 for old in covered & stated.keys())
            or table in covered
            or any(clause <= alternatives for clause in weaker)
            for table, alternatives in stated.items()
        )

    def is_founded(self, formula: Formula, premises: list[Formula]) -> bool:
        """Return whether a formula follows from premises that can be true together."""
        conclusion, together = self.of(formula), {self._true}
        for premise in premises:
            together |= {table & self.of(premise) for table in together} - {0}
        return any(table & ~conclusion == 0 for table in together)

    def _alternatives(self, formula: Formula) -> set[int]:
        """Return the tables of the parts of a formula joined by `or`; an implication's condition is negated."""
        return {self._true ^ self.of(part) for part in _statements(formula, is_true=False)}


def _statements(formula: Formula, *, is_true: bool) -> Iterator[Formula]:
    """Return the parts of a formula, or of its negation, that are joined by `and`."""
    match formula.sign, is_true:
        case ("\u00ac", _):
            yield from _statements(formula.parts[0], is_true=not is_true)
        case ("\u2227", True) | ("\u2228", False):
            for part in formula.parts:
                yield from _statements(part, is_true=is_true)
        case ("\u2192", False):
            yield from _statements(formula.parts[0], is_true=True)
            yield from _statements(formula.parts[1], is_true=False)
        case _:
            yield formula if is_true else Formula(NOT, (formula,))


def _bare(text: str) -> str:
    return re.sub(r"[\s()]", "", text)
