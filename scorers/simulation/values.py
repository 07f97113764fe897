"""When two values are the same: pure functions on data, here and in the sandbox.

In: what an answer says or a program returned, and what a row expects. Out: whether they are the same. Called in the
scorer's process where two values are known, and by the tests beside a row's program (`data_source`): a value is the
same in both places. Nothing here imports anything: its source travels as it is, to Python 3.9 and newer.
"""

from __future__ import annotations

import functools
import inspect


def same(got: object, expected: object, is_json: bool) -> bool:
    """Return whether two values are the same data.

    Numbers are the same by their value, 1 and 1.0 too, and truth values are no numbers. An object that is no data is
    the same as nothing.

    Args:
        got: of a program, perhaps.
        expected: built-in types, of limited depth.
        is_json: the values are JSON's: a tuple is a list, a key is its text, and where a float is expected a number
            within a millionth of it will do. Else they are Python's literals, and floats are exact.
    """
    if isinstance(expected, (int, float, complex)) and not isinstance(expected, bool):
        return _same_number(got, expected, is_json)
    if isinstance(expected, (list, tuple)):
        return (
            isinstance(got, (list, tuple))
            and (is_json or type(got) is type(expected))
            and len(got) == len(expected)
            and all(same(mine, theirs, is_json) for mine, theirs in zip(got, expected))  # noqa: B905 - Python 3.9
        )
    if isinstance(expected, dict):
        if not isinstance(got, dict) or len(got) != len(expected):
            return False
        named = {_key(key, is_json): value for key, value in got.items()}
        wanted = {_key(key, is_json): value for key, value in expected.items()}
        return named.keys() == wanted.keys() and all(same(named[key], wanted[key], is_json) for key in wanted)
    if isinstance(expected, (set, frozenset)):
        return (
            isinstance(got, (set, frozenset))
            and type(got) is type(expected)
            and ({_key(item, False) for item in got} == {_key(item, False) for item in expected})
        )
    is_data = expected is None or expected is ... or isinstance(expected, (bool, str, bytes))
    return is_data and type(got) is type(expected) and bool(got == expected)


def _same_number(got: object, expected: complex, is_json: bool) -> bool:
    if isinstance(got, bool) or not isinstance(got, (int, float, complex)):
        return False
    if got == expected or (got != got and expected != expected):  # noqa: PLR0124 - both are NaN
        return True
    if not is_json or not isinstance(expected, float) or isinstance(got, complex):
        return False
    try:
        return abs(got - expected) <= 1e-6 * abs(expected) < float("inf")
    except OverflowError:  # an integer beyond all floats
        return False


def _key(key: object, is_json: bool) -> object:
    """Return a key or a member with its kind, since True and 1 are one key in Python; in JSON its text."""
    if is_json:
        return (
            {True: "true", False: "false", None: "null"}[key]
            if key is None or isinstance(key, bool)
            else str(key)
        )
    if isinstance(key, (tuple, frozenset)):
        return type(key).__name__, type(key)([_key(item, False) for item in key])
    is_number = isinstance(key, (int, float, complex)) and not isinstance(key, bool)
    return "number" if is_number else type(key).__name__, key


class Data:
    """What a check of the tests expects of a program: equal to all that is the same."""

    def __init__(self, value: object, is_json: bool) -> None:
        self.value = value
        self.is_json = is_json

    def __eq__(self, got: object) -> bool:
        return same(got, self.value, self.is_json)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.value)


@functools.cache
def data_source() -> str:
    """Return all of this as a program's text, with names for the floats whose `repr` is a name."""
    parts = [inspect.getsource(part) for part in (same, _same_number, _key, Data)]
    return "\n".join([*parts, 'inf = float("inf")', 'nan = float("nan")', ""])
