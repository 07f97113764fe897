r"""A rule in bound variables, whatever they are called: `f(x) = x^2`, `t \mapsto t^2`, `a_n = 2^n`, a sum over i.

In: a text in plain LaTeX (`scorers.math.notation.plain`). Out: the function's name, its variables and its rule, or a
text in other variables. Pure functions on text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_SYMBOL: Final = r"(?:[A-Za-z]|\\(?:theta|alpha|beta|lambda|phi|mu|tau|xi)(?![A-Za-z]))"
_RULE: Final = re.compile(
    rf"([A-Za-z](?:_\{{?\w+\}}?)?'?(?:\^\{{-1\}})?)\s*\(\s*({_SYMBOL}(?:\s*,\s*{_SYMBOL})*)\s*\)\s*=\s*(.+)\Z",
    re.DOTALL,
)
_MAPPED: Final = re.compile(
    r"(?:([A-Za-z])\s*:\s*)?(?:\\mathbb\{[A-Z]\}\s*\\to(?![A-Za-z])\s*\\mathbb\{[A-Z]\}\s*,\s*)?"
    rf"({_SYMBOL}|\({_SYMBOL}(?:\s*,\s*{_SYMBOL})+\))\s*\\mapsto(?![A-Za-z])\s*(.+)\Z",
    re.DOTALL,
)
_SEQUENCE: Final = re.compile(r"([A-Za-z])_(?:\{([i-np-t])\}|([i-np-t]))\s*=\s*(.+)\Z", re.DOTALL)
_TOKEN: Final = re.compile(r"\\[A-Za-z]+|[A-Za-z]")
_SUMMED: Final = re.compile(rf"\\(?:sum|prod)\s*_\s*\{{\s*({_SYMBOL})\s*=")
_INTEGRATED: Final = re.compile(rf"\\int(?![A-Za-z]).*(?<![A-Za-z\\])d\s*({_SYMBOL})\s*\Z", re.DOTALL)


class FunctionRule(NamedTuple):
    """`name(variables) = body`; the name is "" where there is none."""

    name: str
    variables: tuple[str, ...]
    body: str
    is_sequence: bool = False


def read_rule(text: str) -> FunctionRule | None:
    """Return the rule that a text states; None where it states none."""
    found = _RULE.match(text) or _MAPPED.match(text)
    if found is None:
        return _sequence(text)
    if "=" in found[3]:
        return None
    variables = found[2].strip("()").split(",")
    return FunctionRule(found[1] or "", tuple(name.strip() for name in variables), found[3].strip())


def _sequence(text: str) -> FunctionRule | None:
    """Return the rule of a sequence's terms; None of other texts, and where the index does not stand in the rule."""
    found = _SEQUENCE.match(text)
    if found is None or "=" in found[4]:
        return None
    index = found[2] or found[3]
    is_used = index in _TOKEN.findall(found[4])
    return FunctionRule(f"{found[1]}_", (index,), found[4].strip(), is_sequence=True) if is_used else None


def renamed(rule: FunctionRule, variables: Sequence[str]) -> str | None:
    """Return a rule's body in other variables; None where the body has one of them already, or not its own.

    `P(A) = 0.5` and `P(B) = 0.5` say it of two events.
    """
    if rule.variables == tuple(variables):
        return rule.body
    symbols = set(_TOKEN.findall(rule.body))
    if len(rule.variables) != len(variables) or not symbols.issuperset(rule.variables):
        return None
    if (symbols - set(rule.variables)) & set(variables):
        return None
    return _in_names(rule.body, dict(zip(rule.variables, variables, strict=True)))


def with_dummy_of(reference: str, answer: str) -> str | None:
    """Return the answer with the summation or integration variable of the reference; None where it has that already."""
    for pattern in (_SUMMED, _INTEGRATED):
        wanted, given = set(pattern.findall(reference)), set(pattern.findall(answer))
        if len(wanted) == len(given) == 1 and wanted != given and not wanted & set(_TOKEN.findall(answer)):
            return _in_names(answer, {given.pop(): wanted.pop()})
    return None


def _in_names(text: str, names: dict[str, str]) -> str:
    return _TOKEN.sub(lambda token: f"{names[token[0]]} " if token[0] in names else token[0], text)
