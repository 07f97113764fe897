"""Answers without any work in them, of which none may pass a row: a row that one passes teaches nothing.

In: the tests of a row. Out: stubs, each with the words that name it: what returns nothing, an empty list, its argument,
a constant, for rows whose tests call the answer; what prints nothing, its input, one case's output, for rows of
standard input and output. Nothing is run here: `scorers.code.trial` finds out which stub passes. A constant that
passes every test passes the first one, so the constants are what the first test names.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from scorers.code.names import free_names, is_check, is_class
from scorers.code.rows import Harnessed, StdioCase

MOST_CONSTANTS: Final = 8  # of the tests' own; a pytest file's cost more
MOST_OF_PYTEST: Final = 4
MOST_CHARS: Final = 2000  # of one of them
SHOWN_CHARS: Final = 60
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


def returning(cases: Sequence[Any]) -> Iterator[tuple[str, Callable[[list[Any]], Any]]]:
    """Yield the stubs of function calls that are data, each with what it returns for some arguments."""
    yield "a function that returns nothing", lambda _: None
    yield "a function that returns []", lambda _: []
    yield "a function that returns its argument", lambda given: given[0] if given else None
    if any(len(case["arguments"]) > 1 for case in cases):
        yield "a function that returns its last argument", lambda given: given[-1] if given else None
    for constant in (*cases[0]["expected"], True, False, 0, "", {}):
        yield f"a function that returns {_shown(repr(constant))}", partial(_always, constant)


def _always(constant: Any, _: list[Any]) -> Any:
    return constant


def programs(tests: Harnessed) -> list[Stub]:
    """Return the stubs of tests that are programs, the plainest first."""
    text = tests.pytest if tests.pytest is not None else "\n".join(case["text"] for case in tests.cases)
    tree = ast.parse(text)
    names = tests.names or _names_of(tree, tests.module)
    values = {
        "nothing": "None",
        "[]": "[]",
        "its argument": "arguments[0] if arguments else next(iter(named.values()), None)",
        "its last argument": "[*arguments, *named.values()][-1]",
    }
    before = _imports(f"{tests.prefix}\n{tests.setup}\n{text}", tests.module)
    known = {alias.asname or alias.name.partition(".")[0] for node in before for alias in node.names}
    known |= set(dir(builtins)) - set(names)
    most, small = (MOST_CONSTANTS, SMALL) if tests.pytest is None else (MOST_OF_PYTEST, SMALL[:2])
    constants = [*_constants(tree, frozenset(known), most), *small]
    values |= {_shown(constant): constant for constant in constants if constant not in {"None", "[]"}}
    stubs = []
    for words, value in values.items():
        stubs.append(
            Stub(f"a function that returns {words}", _program(before, names, value, is_object=False))
        )
        if any(map(is_class, names)):
            said = f"a class whose methods return {words}"
            stubs.append(Stub(said, _program(before, names, value, is_object=True)))
    return stubs


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
