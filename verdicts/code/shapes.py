"""Find the shape of a row's tests, and refuse rows with keys that the shape does not have.

In: the answer of a code row. Out: the key that names the shape. A key that is ignored may contain the tests: verl's
rows of KodCode have them in `assert_case`, with inputs and outputs that mean nothing. Also defines the code that runs
before an answer whose row has no imports. Used by `verdicts.code.rows`.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any, Final

from broker.errors import BadMessage
from tasks.values import is_nothing, shown, unread

SHAPES: Final = (
    '{"test_cases": [{"input", "output"}]}',
    '{"inputs", "outputs", "fn_name"?}',
    '{"assert_case": [...], "fn_name"?}',
    '{"functional", "prefix"?}',
    '{"tests": [...], "setup"?}',
    '{"pytest", "module"?}',
)
# The key that names a shape -> further allowed keys. The first one with a value decides.
_BESIDE: Final[Mapping[str, frozenset[str]]] = {
    "assert_case": frozenset({"inputs", "outputs", "fn_name"}),
    "test_cases": frozenset({"fn_name"}),
    "inputs": frozenset({"outputs", "fn_name"}),
    "outputs": frozenset({"inputs", "fn_name"}),
    "functional": frozenset({"prefix"}),
    "tests": frozenset({"setup"}),
    "pytest": frozenset({"module"}),
}
_STDIO: Final = frozenset(
    {"stdin", "stdin_stdout", "stdio", "standard_input"}
)  # kinds of a case, by its data set
_CALL: Final = frozenset({"function_call", "functional", "function", "call"})

# Function calls come from sites that import these for their users: an answer uses `List[int]` without an import.
PRELUDE: Final = """\
import bisect, collections, functools, heapq, itertools, math, re, string
from bisect import *; from collections import *
from functools import *; from heapq import *; from itertools import *
from math import ceil, comb, floor, gcd, inf, isqrt, lcm, log2, sqrt
from typing import *
"""


def shape_of(answer: Mapping[str, Any]) -> str:
    """Return the key that names the answer's shape.

    Raises:
        BadMessage: the answer has no such key, or one that is not allowed in its shape.
    """
    shapes = [name for name in _BESIDE if not is_nothing(answer.get(name))]
    shapes = shapes or [name for name in _BESIDE if name in answer]
    if not shapes:
        raise BadMessage(
            f"a code row's answer is one of {', '.join(SHAPES)}; got the keys {sorted(map(str, answer))}"
        )
    name = shapes[0]
    refuse_unknown(answer, {name, "language", *_BESIDE[name]}, f"beside {name!r}")
    return name


def refuse_unknown(found: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Raise BadMessage if a key that is not read has a value."""
    if keys := unread(found, known):
        raise BadMessage(
            f"a code row with {', '.join(map(repr, keys))} {where}, which nothing here reads: the "
            f"tests might mean something else with it; take it out of the answer if they do not. Known are "
            f'{", ".join(SHAPES)}, each with "language"'
        )


def calls_function(case: Mapping[str, Any]) -> bool:
    """Return whether a case calls a function, according to its data set's `type` or `testtype`. Raises BadMessage."""
    kinds = {str(case[key]).lower() for key in ("type", "testtype") if not is_nothing(case.get(key))}
    if kinds <= _STDIO:
        return False
    if kinds <= _CALL:
        return True
    raise BadMessage(
        f"a test case of the kind {shown(sorted(kinds))}: known are stdin_stdout and function_call"
    )


def asserts_of(answer: Mapping[str, Any]) -> list[Any]:
    """Return the asserts of a row of KodCode in verl's form; its inputs and outputs must mean nothing.

    Raises:
        BadMessage: there are inputs or outputs, too, with which verl would call the function and compare.
    """
    for key in ("inputs", "outputs"):
        beside = answer.get(key)
        parts = beside if isinstance(beside, list | tuple) else [beside]
        if not all(map(is_nothing, parts)):
            raise BadMessage(
                f"a code row with 'assert_case' and {key} that say something ({shown(beside)}): its tests are one or "
                "the other"
            )
    asserts = answer["assert_case"]
    return [asserts] if isinstance(asserts, str) else asserts


def prelude_for(names: Iterable[str]) -> str:
    """Return the code to run before an answer whose row has no imports, without the names that the answer must define.

    Args:
        names: names of the answer that the tests use; if it provided `gcd`, an answer without one would be right.
    """
    own = sorted(set(names) & _provided())
    return f"{PRELUDE}del {', '.join(own)}\n" if own else PRELUDE


@cache
def _provided() -> frozenset[str]:
    """Return the names that PRELUDE defines."""
    found: set[str] = set()
    for statement in ast.parse(PRELUDE).body:
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            for alias in statement.names:
                found |= _public(statement.module) if alias.name == "*" else {alias.name}
    return frozenset(found)


def _public(module: str) -> set[str]:
    loaded = importlib.import_module(module)
    return set(getattr(loaded, "__all__", [name for name in vars(loaded) if not name.startswith("_")]))
