"""What a check is: the comparison of a call's result, and tests with their asserts counted.

In: data that C sent, rebuilt from built-in types, and what the row expects. Out: whether they are the same. Runs in T.
"""

from __future__ import annotations

import _ast
import sys

from sandbox.harness.remote import Remote

if False:
    from typing import Any

PLAIN = (int, float, bool, bytes, type(None))
SHOWN = 60  # characters of a value in a reason
SHOWN_DIGITS = 4300  # of an integer in a reason; more would cost time that grows with their square
TOLERANCE = 1e-6  # of numbers where the row expects a float: relative, or absolute below 1
INFINITY = float("inf")
CHECKED = "__check_ran__"
_TREE = 0x400  # ast.PyCF_ONLY_AST; importing ast costs 6 ms


def shown(value: Any) -> str:
    """Return a value for people, in one short line."""
    if isinstance(value, Remote):
        return "an object of the program"
    limit = getattr(sys, "set_int_max_str_digits", int)  # which early releases of 3.9 and 3.10 lack
    before = getattr(sys, "get_int_max_str_digits", int)()
    try:
        limit(SHOWN_DIGITS)
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - an integer of too many digits
        text = f"a value of type {type(value).__name__} ({error})"
    finally:
        limit(before)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def told(error: BaseException) -> str:
    """Say for people what an exception says, only from data: no object of the answer is asked, here or by `str`."""
    parts = [
        part if type(part) is str else shown(part) if type(part) in PLAIN else f"a {type(part).__name__}"
        for part in error.args[:4]
    ]
    return ", ".join(parts)


def same(got: Any, expected: Any) -> bool:
    """Return whether a call returned what a row in JSON expects, as Python's own == says, but for four things.

    So 0 is False, 2 is 2.0 and 1 is true, as in PRIME's, verl's and LiveCodeBench's graders, and no text is a number.
    Tuples count as lists, since JSON has no tuples, and keys of a dictionary as their text. Where a float is expected a
    number within TOLERANCE is the same, and nothing else is infinite; whole numbers are exact.
    """
    if isinstance(expected, list):
        return (
            isinstance(got, (list, tuple))
            and len(got) == len(expected)
            and all(same(mine, theirs) for mine, theirs in zip(got, expected))  # noqa: B905 - Python 3.9
        )
    if isinstance(expected, dict):
        if not isinstance(got, dict) or len(got) != len(expected):
            return False
        named = {key if isinstance(key, str) else _json_key(key): value for key, value in got.items()}
        return named.keys() == expected.keys() and all(same(named[key], expected[key]) for key in expected)
    return bool(got == expected) or (isinstance(expected, float) and _is_near(got, expected))


def _is_near(got: Any, expected: float) -> bool:
    room = TOLERANCE * max(1.0, abs(expected))
    if not isinstance(got, (int, float)) or room == INFINITY:
        return False
    try:
        return abs(got - expected) <= room
    except OverflowError:  # an integer beyond all floats
        return False


def _json_key(key: Any) -> str:
    """Return a key as JSON writes it."""
    return (
        {True: "true", False: "false", None: "null"}[key]
        if key is None or isinstance(key, bool)
        else str(key)
    )


def parsed(text: str) -> Any:
    """Return the syntax tree of tests."""
    return compile(text, "tests.py", "exec", _TREE, dont_inherit=True)


def compiled(statements: list[Any]) -> Any:
    """Compile statements of tests to code that counts its asserts as they are reached."""
    stack: list[Any] = list(statements)
    body = _with_counts(statements)
    while stack:
        node = stack.pop()
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, _ast.AST):
                stack.append(value)
            elif isinstance(value, list):
                stack.extend(item for item in value if isinstance(item, _ast.AST))
                if any(isinstance(item, _ast.Assert) for item in value):
                    setattr(node, name, _with_counts(value))
    return compile(_ast.Module(body, []), "tests.py", "exec", dont_inherit=True)


def _with_counts(statements: list[Any]) -> list[Any]:
    counted = []
    for statement in statements:
        if isinstance(statement, _ast.Assert):
            at = {
                name: getattr(statement, name)
                for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")
            }
            call = _ast.Call(_ast.Name(CHECKED, _ast.Load(), **at), [], [], **at)
            counted.append(_ast.Expr(call, **at))
        counted.append(statement)
    return counted


def sides(tree: Any) -> Any:
    """Return both sides of a lone `assert left == right` as code, for a reason to show, or None."""
    if len(tree.body) != 1 or not isinstance(tree.body[0], _ast.Assert):
        return None
    test = tree.body[0].test
    if not (isinstance(test, _ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], _ast.Eq)):
        return None
    return tuple(
        [
            compile(_ast.Expression(side), "tests.py", "eval", dont_inherit=True)
            for side in (test.left, test.comparators[0])
        ]
    )
