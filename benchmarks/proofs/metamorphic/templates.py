r"""References of the shapes that real ones have, by shape and number, each with answers that are right and wrong.

In: `templates.txt`. Out: references with their answers, numbers filled in. A block is a reference, then answers behind
`+` for right and `-` for wrong; a line behind `##` names the kind of the blocks that follow. `<a>` to `<h>` are
different integers, in ascending order, and `<a*a+b>` or `<sin(a):.3f>` is what they make.
"""

from __future__ import annotations

import ast
import math
import operator
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

FILE: Final = Path(__file__).with_name("templates.txt")
LETTERS: Final = "abcdefgh"
# From 3, since 2^4 is 4^2; without 10, which as a base is none.
NUMBERS: Final = (*range(3, 10), *range(11, 20))
_PLACE: Final = re.compile(r"<((?:[a-h0-9.*+/() -]|sin|sqrt|log|exp|pi)+)(?::(\.[0-9]f))?>")
_OPERATIONS: Final[dict[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FUNCTIONS: Final[dict[str, Callable[[float], float]]] = {
    "sin": math.sin,
    "sqrt": math.sqrt,
    "log": math.log,
    "exp": math.exp,
}


class Template(NamedTuple):
    """A reference with places for numbers, and answers with the same places."""

    kind: str
    reference: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]

    def filled(self, chance: random.Random) -> Template:
        """Return it with numbers."""
        drawn = dict(zip(LETTERS, sorted(chance.sample(NUMBERS, len(LETTERS))), strict=True))
        return Template(
            self.kind,
            _filled(self.reference, drawn),
            tuple(_filled(answer, drawn) for answer in self.right),
            tuple(_filled(answer, drawn) for answer in self.wrong),
        )


def read(path: Path = FILE) -> list[Template]:
    """Return all templates, in the file's order."""
    templates = []
    kind = ""
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if line]
        if lines and lines[0].startswith("## "):
            kind = lines.pop(0)[3:]
        if lines:
            right = tuple(line[2:] for line in lines[1:] if line.startswith("+ "))
            wrong = tuple(line[2:] for line in lines[1:] if line.startswith("- "))
            templates.append(Template(kind, lines[0], right, wrong))
    return templates


def _filled(text: str, drawn: Mapping[str, int]) -> str:
    def number(found: re.Match[str]) -> str:
        value = _value(ast.parse(found[1].strip(), mode="eval").body, drawn)
        return format(value, found[2]) if found[2] else str(value)

    return _PLACE.sub(number, text)


def _value(node: ast.expr, drawn: Mapping[str, int]) -> float:
    """Return what a place's arithmetic gives. Raises ValueError for all but arithmetic."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id="pi"):
            return math.pi
        case ast.Name(id=name) if name in drawn:
            return drawn[name]
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATIONS:
            return _OPERATIONS[type(sign)](_value(left, drawn), _value(right, drawn))
        case ast.Call(func=ast.Name(id=name), args=[argument]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_value(argument, drawn))
    raise ValueError(f"a template's place has no arithmetic of numbers: {ast.unparse(node)}")
