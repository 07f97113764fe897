"""What of a program judges it: functions, bases and fixtures that decide whether a test passes.

In: syntax of a row's files. Out: whether a name judges, by what is in it or by what tests do with it. Used by
`scorers.swe.sides`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from scorers.swe.names import Function, identifiers

_TOOLS: Final = frozenset({"pytest", "unittest", "AssertionError", "TestCase"})
_STARTS: Final = ("assert", "expect")  # of names of functions that judge
_HELPS: Final = re.compile(
    r"test|check|helper|fixture|fake|mock|stub|assert|expect|verif|factor", re.IGNORECASE
)
_TRUTH: Final = frozenset({"assertTrue", "assertFalse"})
_RAISES: Final = frozenset({"raises", "assertRaises", "assertRaisesRegex", "suppress", "warns"})


def is_class(node: ast.AST) -> bool:
    """Return whether a statement defines a class."""
    return isinstance(node, ast.ClassDef)


def is_namespace(node: ast.AST) -> bool:
    """Return whether a class holds nothing but constants."""
    return (
        isinstance(node, ast.ClassDef)
        and not (node.bases or node.keywords or node.decorator_list)
        and all(
            isinstance(one, ast.Assign | ast.AnnAssign | ast.Pass)
            or (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
            for one in node.body
        )
    )


def is_helpers_name(module: str) -> bool:
    """Return whether a module is called as one that helps tests is."""
    return _HELPS.search(module.rpartition(".")[2]) is not None


def constants_of(statements: Sequence[ast.stmt], wanted: Collection[str]) -> list[str]:
    """Return the wanted names that a class binds to values in its own body."""
    return [
        target.id
        for statement in statements
        if isinstance(statement, ast.ClassDef)
        for one in statement.body
        if isinstance(one, ast.Assign | ast.AnnAssign) and one.value is not None
        for target in (one.targets if isinstance(one, ast.Assign) else [one.target])
        if isinstance(target, ast.Name) and target.id in wanted
    ]


def is_strong(tree: ast.AST) -> bool:
    """Return whether something uses tools of tests, or is named as a check is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in _TOOLS:
            return True
        if isinstance(node, ast.Attribute) and (
            node.attr.startswith("assert") or node.attr in {"fail", *_TOOLS}
        ):
            return True
        if isinstance(node, Function) and node.name.lower().lstrip("_").startswith(_STARTS):
            return True
    return False


class NameUsage:
    """What test files do with names.

    Attributes:
        identifiers: all that stand in them.
        bases: names of bases and decorators of what tests define.
        truths: names of functions whose result is asserted by itself.
        statements: names of functions that are called for nothing but what they do or raise.
        others: names that are used in another way.
    """

    def __init__(self, trees: Sequence[ast.Module]) -> None:
        """Read the files."""
        self.identifiers: set[str] = set()
        self.bases: set[str] = set()
        self.truths: set[str] = set()
        self.statements: set[str] = set()
        self.others: set[str] = set()
        for tree in trees:
            self.identifiers |= identifiers(tree)
            self._read(tree)

    def _read(self, tree: ast.AST) -> None:
        judged: set[int] = set()  # calls that are judged by themselves
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                self.bases |= {one for base in (*node.bases, *node.decorator_list) for one in _ends(base)}
            elif isinstance(node, Function):
                self.bases |= {one for base in node.decorator_list for one in _ends(base)}
            for call, is_truth in _judged(node):
                judged.add(id(call.func))
                (self.truths if is_truth else self.statements).update(_ends(call.func))
        waited = {
            id(call.func)
            for node in ast.walk(tree)
            if isinstance(node, ast.With) and _is_raises(node)
            for one in node.body
            for call, _ in _judged(one)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Name | ast.Attribute) and (id(node) not in judged or id(node) in waited):
                self.others |= {node.attr if isinstance(node, ast.Attribute) else node.id}


def judges(
    name: str, statements: Sequence[ast.stmt], usage: NameUsage, *, is_used: bool, judges: Collection[str]
) -> bool:
    """Return whether a function or class is there to judge.

    Args:
        name: of it.
        statements: that bind it.
        usage: what tests do with names.
        is_used: whether the program uses the name too.
        judges: names beside it that do.
    """
    if not all(isinstance(one, (*Function, ast.ClassDef)) for one in statements):
        return False
    if name in usage.bases or all(map(is_strong, statements)):
        return True
    if is_used or any(isinstance(one, ast.ClassDef) for one in statements):
        return False
    whole = ast.Module(list(statements), [])
    can_fail = any(isinstance(one, ast.Assert | ast.Raise) for one in ast.walk(whole))
    is_silent = not any(isinstance(one, ast.Return) and one.value is not None for one in ast.walk(whole))
    if is_silent and not identifiers(whole).isdisjoint(judges):
        return True
    has_assert = any(isinstance(one, ast.Assert) for one in ast.walk(whole))
    if has_assert and is_silent:
        return True
    is_only_judged = name not in usage.others
    return is_only_judged and (name in usage.truths or (can_fail and name in usage.statements))


def _judged(node: ast.AST) -> Iterator[tuple[ast.Call, bool]]:
    """Give the calls in a statement that are judged by themselves, and whether by their truth."""
    if isinstance(node, ast.Assert):
        yield from ((call, True) for call in _calls(node.test))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield node.value, False
        if set(_ends(node.value.func)) & _TRUTH and node.value.args:
            yield from ((call, True) for call in _calls(node.value.args[0]))


def _calls(test: ast.expr) -> Iterator[ast.Call]:
    """Give the calls that a condition consists of."""
    if isinstance(test, ast.UnaryOp):
        yield from _calls(test.operand)
    elif isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from _calls(value)
    elif isinstance(test, ast.Call):
        yield test


def _is_raises(node: ast.With) -> bool:
    return any(
        isinstance(item.context_expr, ast.Call) and set(_ends(item.context_expr.func)) & _RAISES
        for item in node.items
    )


def _ends(node: ast.expr) -> Iterator[str]:
    """Give the last name of an expression: `a.b` and `a.b(...)` are of `b`."""
    if isinstance(node, ast.Call):
        yield from _ends(node.func)
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Name):
        yield node.id
