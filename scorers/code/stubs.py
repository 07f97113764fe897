"""Answers without any work in them, of which none may pass a row: a row that one passes teaches nothing.

In: the tests of a row. Out: stubs, each with the words that name it: what returns nothing, an empty list, its argument,
a constant, for rows whose tests call the answer; what prints nothing, its input, one case's output, for rows of
standard input and output. Nothing is run here: `scorers.code.trial` finds out which stub passes. A constant that
passes every test passes the first one, so the constants are what the first test names.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from verdicts.code.names import free_names, is_check, is_class
from verdicts.code.rows import Harnessed, StdioCase

MOST_CONSTANTS: Final = 8  # of the tests' own; a pytest file's cost more
MOST_OF_PYTEST: Final = 4
MOST_CHARS: Final = 100_000  # of one of them
SHOWN_CHARS: Final = 60
PLAIN: Final[Mapping[str, str]] = {
    "nothing": "None",
    "[]": "[]",
    "its argument": "arguments[0] if arguments else next(iter(named.values()), None)",
    "its last argument": "[*arguments, *named.values()][-1]",
}
SMALL: Final = ("True", "0", "''", "{}")  # that a loose check may take: `assert f(x)`, `assert f(x) < 5`


@dataclass(frozen=True, slots=True)
class Stub:
    """One answer without any work in it."""

    words: str  # "a function that returns nothing"
    source: str  # the program


def printing(cases: Sequence[StdioCase]) -> Iterator[tuple[str, Callable[[StdioCase], str]]]:
    """Yield the stubs of standard input and output, each with what it prints in a case."""
    constant = cases[0].expected
    yield "a program that prints nothing", lambda _: ""
    yield "a program that prints its input", lambda case: case.stdin
    yield f"a program that always prints {_shown(repr(constant))}", lambda _: constant


def programs(tests: Harnessed) -> list[Stub]:
    """Return the stubs of tests that call the answer, the plainest first."""
    called = [case for case in tests.cases if "entry" in case]
    text = tests.pytest or "\n".join(case["text"] for case in tests.cases if "text" in case)
    tree = ast.parse(text)
    names = tuple({case["entry"] for case in called}) or tests.names or _names_of(tree, tests.module)
    imports = _imports(f"{tests.prefix}\n{tests.setup}\n{text}", tests.module)
    known = {alias.asname or alias.name.partition(".")[0] for node in imports for alias in node.names}
    known |= set(dir(builtins)) - set(names)
    most, small = (MOST_CONSTANTS, SMALL) if tests.pytest is None else (MOST_OF_PYTEST, SMALL[:2])
    constants = _results(called[0]) if called else _constants(tree, frozenset(known), most)
    returned = dict(PLAIN) | {
        _shown(constant): constant for constant in (*constants, *small) if constant != "None"
    }
    return [
        Stub(f"{what} {words}", _program(imports, names, value, is_object=is_object))
        for words, value in returned.items()
        for what, is_object in (("a function that returns", False), ("a class whose methods return", True))
        if not is_object or any(map(is_class, names))
    ]


def _results(case: Mapping[str, Any]) -> list[str]:
    """Return the results that a call may have, as expressions."""
    try:
        return [text for value in case["expected"] if len(text := repr(value)) <= MOST_CHARS]
    except ValueError:  # an integer of too many digits
        return []


def _imports(text: str, module: str) -> list[ast.Import | ast.ImportFrom]:
    """Return the imports that a constant may need."""
    return [
        node
        for node in ast.parse(text).body
        if (isinstance(node, ast.ImportFrom) and node.module not in {module, "pytest", "__future__"})
        or (
            isinstance(node, ast.Import)
            and {alias.name for alias in node.names}.isdisjoint({module, "pytest"})
        )
    ]


def _program(imports: Sequence[ast.stmt], names: Sequence[str], value: str, *, is_object: bool) -> str:
    """Return a program that defines every name as a function of that value, or as a class of such methods."""
    lines = [
        *map(ast.unparse, imports),
        "def _stub(*arguments, **named):",
        f"    return {value}",
        "class _Stub:",
        "    def __init__(self, *arguments, **named): pass",
        "    def __getattr__(self, name):",
        "        if name[:2] == '__': raise AttributeError(name)",
        "        return _stub",
    ]
    lines += [f"{name} = {'_Stub' if is_object and is_class(name) else '_stub'}" for name in names]
    return "\n".join(lines)


def _names_of(tree: ast.Module, module: str) -> tuple[str, ...]:
    """Return what a pytest file takes of the answer's module; of a star, every name that nobody else defines."""
    names: set[str] = set()
    aliases: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == module:
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            aliases |= {alias.asname or alias.name for alias in node.names if alias.name == module}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            names.add(node.attr)
    if "*" in names:
        names |= {name for name in free_names(ast.unparse(tree)) if not hasattr(builtins, name)}
    return tuple(sorted(name for name in names if name.isidentifier() and name[:2] != "__"))


def _constants(tree: ast.Module, known: frozenset[str], most: int) -> list[str]:
    """Return what the first checks compare with, as expressions; then what a table of cases begins with.

    Args:
        tree: the tests.
        known: names that an expression may use.
        most: expressions.
    """
    found: dict[str, None] = {}
    for node in _in_order(tree):
        for part in _candidates(node):
            text = ast.unparse(part)
            if _names(part) <= known and len(text) <= MOST_CHARS and len(found) < most:
                found[text] = None
    return list(found)


def _names(node: ast.AST) -> set[str]:
    """Return the names that an expression needs."""
    names = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
    own = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    own |= {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
    return {name.id for name in names} - own


def _in_order(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield what may hold a check's constant: the first two checks, and then the others in the order of the text."""
    nodes = sorted(
        (node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.Call)),
        key=lambda node: (node.lineno, node.col_offset),
    )
    checks = [
        node
        for node in nodes
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Call) and is_check(node.func))
    ]
    yield from checks[:2]
    yield from (node for node in nodes if isinstance(node, ast.Assign | ast.For | ast.FunctionDef))


def _candidates(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions in a node that a check may have as its constant."""
    match node:
        case ast.Assert(test=test):
            yield from _sides(test)
        case ast.Call(args=arguments):
            yield from arguments
        case ast.Assign(value=value) | ast.For(iter=value):
            yield from _of_table(value)
        case ast.FunctionDef(decorator_list=marks):
            for mark in marks:
                for argument in mark.args[1:] if isinstance(mark, ast.Call) else ():
                    yield from _of_table(argument)
        case _:
            return


def _sides(test: ast.expr) -> Iterator[ast.expr]:
    """Yield what a check compares with: the sides of comparisons and differences, the arguments of calls."""
    match test:
        case ast.Compare(left=left, comparators=others):
            for side in (*others, left):
                yield from _sides(side)
        case ast.BoolOp(values=values):
            for value in values:
                yield from _sides(value)
        case ast.BinOp(left=left, right=right):
            yield test
            yield from (right, left)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _sides(operand)
        case ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]) | ast.Set(elts=[first, *_]):
            yield from (test, first)  # `f(x) in (1, 2)`
        case ast.Call(args=arguments):
            yield test
            for argument in arguments:
                yield from (argument.left, argument.right) if isinstance(argument, ast.BinOp) else (argument,)
        case _:
            yield test


def _of_table(node: ast.expr) -> Iterator[ast.expr]:
    """Yield a value, and the last one of its first row: what a table of cases expects."""
    yield node
    if isinstance(node, ast.List | ast.Tuple) and node.elts:
        row = node.elts[0]
        while (parts := getattr(row, "values", None) or getattr(row, "elts", None)) and parts[-1] is not None:
            row = parts[-1]
            yield row


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."
