"""Programs with one thing changed: an operator or a constant.

In: the source of a program that is right. Out: its mutants, and whether a plain run of the tests finds one wrong, which
is the label that the scorer never sees. The plain run is a bare interpreter in a scratch folder with a time limit: it
is for programs that people wrote and published, never for a model's.
"""

from __future__ import annotations

import ast
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from operator import setitem

PLAIN_TIMEOUT_S = 5.0

_OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def mutate(source: str, chance: random.Random) -> str | None:
    """Change one operator or constant of the program, chosen at random; None where it has none.

    Raises:
        SyntaxError: it is no Python.
    """
    tree = ast.parse(source)
    sites = _sites(tree)
    if not sites:
        return None
    chance.choice(sites)()
    return ast.unparse(ast.fix_missing_locations(tree))


def is_wrong(source: str, tests: Sequence[str], setup: str) -> bool:
    """Tell whether a bare interpreter that runs program and tests raises, ends otherwise than well, or hangs."""
    script = "\n".join((setup, source, *tests))
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        try:
            ended = subprocess.run(
                [sys.executable, "-I", "-c", script],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=PLAIN_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return True
    return ended.returncode != 0


def _sites(tree: ast.Module) -> list[Callable[[], object]]:
    """Yield a change for every place that has one, in the order of the tree."""
    found: list[Callable[[], object]] = []
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(op=op) | ast.AugAssign(op=op) | ast.BoolOp(op=op) if type(op) in _OPERATORS:
                found.append(partial(setattr, node, "op", _OPERATORS[type(op)]()))
            case ast.Compare(ops=ops):
                found += [
                    partial(setitem, ops, place, _OPERATORS[type(op)]()) for place, op in enumerate(ops)
                ]
            case ast.Constant(value=value) if (other := _other(value)) is not None:
                found.append(partial(setattr, node, "value", other))
    return found


def _other(value: object) -> object | None:
    """Return another constant of the same type; None for those that are left alone."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "x"
    return None
