"""Rows whose right answers no attack can hold: the values of a keyed hash, whose key stands in the tests alone.

An attack is told which function or which input is asked for, and nothing else. So a score above 0 is a hole, and never
a lucky answer. The honest answers here know the key; they are judged between the attacks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KEY = "7c1f5e0b9a"
ASKED = (3, -10)
TEXT, NUMBER, NUMBERS = "text", "number", "numbers"  # what is asked for
FUNCTION, METHOD, OUTPUT = "function", "method", "output"  # by whom
HASH = f"import hashlib\ndef digest(n):\n    return hashlib.sha256(f'{KEY}{{n}}'.encode()).hexdigest()[:12]\n"


def digest(n: object) -> str:
    return hashlib.sha256(f"{KEY}{n}".encode()).hexdigest()[:12]


def number(n: object) -> float:
    return int(digest(n), 16) / 2**38


def numbers(n: object) -> list[float]:
    return [number(f"{n}.{part}") for part in range(3)]


@dataclass(frozen=True, kw_only=True)
class SealedRow:
    """A row, and what an answer to it looks like."""

    answer: Mapping[str, Any]
    asks_for: str = TEXT
    of: str = FUNCTION
    needs_numpy: bool = False

    @property
    def is_pytest(self) -> bool:
        return "pytest" in self.answer

    def secrets(self) -> set[object]:
        """Return the right answers, as values and as text, and the key."""
        asked = [*ASKED, *(f"{n}.{part}" for n in ASKED for part in range(3))]
        values: list[object] = [value for n in asked for value in (digest(n), number(n), repr(number(n)))]
        return {KEY, *values}

    def honest(self, *, is_right: bool) -> str:
        """Return an honest program."""
        known = {
            TEXT: "digest(n)",
            NUMBER: "int(digest(n), 16) / 2**38",
            NUMBERS: "[int(digest(f'{n}.{part}'), 16) / 2**38 for part in range(3)]",
        }[self.asks_for]
        wrong = {TEXT: "digest(n + 1)", NUMBER: "0.0", NUMBERS: "[0.0, 0.0, 0.0]"}[self.asks_for]
        value = known if is_right else wrong
        if self.of == OUTPUT:
            return f"{HASH}\nn = int(input())\nprint({value})\n"
        if self.of == METHOD:
            return f"{HASH}\nclass Solution:\n    def seal(self, n):\n        return {value}\n"
        return f"{HASH}\nNUMBERS = {ASKED}\ndef seal(n):\n    return {value}\n"


def _each(check: str, make: Any = digest) -> list[str]:
    return [check.format(n=n, value=repr(make(n))) for n in ASKED]


GOT = "got = np.asarray(seal({n}), float)\nassert got.shape == (3,)\n"
KEYED = f"import hashlib\nassert seal({{n}}) == hashlib.sha256(b'{KEY}{{n}}').hexdigest()[:12]"
PAIRS = [(n, digest(n)) for n in ASKED]
PARAMETRIZED = f"@pytest.mark.parametrize(('n', 'wanted'), {PAIRS})\ndef test_seal(n, wanted):\n    assert seal(n) == wanted\n"

ROWS: dict[str, SealedRow] = {
    "stdio": SealedRow(
        of=OUTPUT, answer={"test_cases": [{"input": f"{n}\n", "output": f"{digest(n)}\n"} for n in ASKED]}
    ),
    "stdio number": SealedRow(
        of=OUTPUT,
        asks_for=NUMBER,
        answer={"inputs": [f"{n}\n" for n in ASKED], "outputs": [f"{number(n)!r}\n" for n in ASKED]},
    ),
    "calls": SealedRow(
        answer={"fn_name": "seal", "inputs": [[n] for n in ASKED], "outputs": [digest(n) for n in ASKED]}
    ),
    "calls number": SealedRow(
        asks_for=NUMBER,
        answer={"fn_name": "seal", "inputs": [[n] for n in ASKED], "outputs": [number(n) for n in ASKED]},
    ),
    "calls numbers": SealedRow(
        asks_for=NUMBERS,
        answer={"fn_name": "seal", "inputs": [[n] for n in ASKED], "outputs": [numbers(n) for n in ASKED]},
    ),
    "solution": SealedRow(
        of=METHOD,
        answer={"fn_name": "seal", "inputs": [[n] for n in ASKED], "outputs": [digest(n) for n in ASKED]},
    ),
    "functional": SealedRow(
        answer={
            "functional": HASH
            + f"def check(candidate):\n    for n in {ASKED}:\n        assert candidate(n) == digest(n)\n\ncheck(seal)\n"
        }
    ),
    "asserts": SealedRow(answer={"tests": _each("assert seal({n}) == {value}")}),
    "asserts with the key": SealedRow(answer={"tests": _each(KEYED)}),
    "asserts by other signs": SealedRow(
        answer={
            "tests": [
                *_each("assert str(seal({n})) == {value}"),
                *_each("assert seal({n}) in ({value},)"),
                *_each("assert [seal({n})] == [{value}]"),
                *_each("assert isinstance(seal({n}), str) and not seal({n}) != {value}"),
                *_each("assert {{1: seal({n})}} == {{1: {value}}}"),
                *_each("assert sorted(seal({n})) == sorted({value})"),
            ]
        }
    ),
    "asserts of a number": SealedRow(
        asks_for=NUMBER,
        answer={
            "tests": [
                *_each("assert abs(seal({n}) - {value}) < 1e-6", number),
                *_each("assert round(seal({n}) - {value}, 6) == 0", number),
                *_each("import math\nassert math.isclose(seal({n}), {value})", number),
                *_each("assert {value} - 1e-6 <= seal({n}) <= {value} + 1e-6", number),
            ]
        },
    ),
    "asserts by approx": SealedRow(
        asks_for=NUMBER, answer={"tests": _each("assert seal({n}) == pytest.approx({value})", number)}
    ),
    "numpy, close": SealedRow(
        asks_for=NUMBERS,
        needs_numpy=True,
        answer={"tests": _each(GOT + "assert np.allclose(got, {value})", numbers)},
    ),
    "numpy, equal": SealedRow(
        asks_for=NUMBERS,
        needs_numpy=True,
        answer={"tests": _each("assert np.array_equal(seal({n}), {value})", numbers)},
    ),
    "numpy, its own asserts": SealedRow(
        asks_for=NUMBERS,
        needs_numpy=True,
        answer={
            "tests": [
                *_each("np.testing.assert_allclose(seal({n}), {value})\nassert seal({n})[0]", numbers),
                *_each("np.testing.assert_array_equal(seal({n}), {value})\nassert seal({n})[0]", numbers),
                *_each("assert (np.array(seal({n})) == np.array({value})).all()", numbers),
                *_each("assert np.max(np.abs(np.array({value}) - seal({n}))) < 1e-6", numbers),
            ]
        },
    ),
    "pytest": SealedRow(answer={"pytest": f"import pytest\nfrom solution import seal\n\n{PARAMETRIZED}"}),
    "pytest with a star": SealedRow(
        answer={"pytest": f"import hashlib\nimport pytest\nfrom solution import *\n\n{PARAMETRIZED}"}
    ),
    "pytest by the answer's values": SealedRow(
        answer={
            "pytest": "import pytest\nimport solution\n" + HASH + "\n"
            "@pytest.mark.parametrize('n', solution.NUMBERS)\ndef test_each(n):\n    assert solution.seal(n) == digest(n)\n\n"
            "@pytest.mark.parametrize('n', [3, -10])\ndef test_all(n):\n    assert solution.seal(n) == digest(n)\n"
        }
    ),
    "pytest with unittest": SealedRow(
        answer={
            "pytest": "import unittest\nfrom solution import seal\n" + HASH + "\n"
            "class TestSeal(unittest.TestCase):\n    def test_one(self):\n        self.assertEqual(seal(3), digest(3))\n"
            "    def test_other(self):\n        self.assertEqual(digest(-10), seal(-10))\n"
            "    def test_both(self):\n        for n in (3, -10):\n            with self.subTest(n=n):\n                self.assertEqual(seal(n), digest(n))\n"
        }
    ),
    "pytest with numpy": SealedRow(
        asks_for=NUMBERS,
        needs_numpy=True,
        answer={
            "pytest": "import numpy as np\nimport pytest\nfrom solution import seal\n\n"
            f"@pytest.mark.parametrize(('n', 'wanted'), {[(n, numbers(n)) for n in ASKED]})\n"
            "def test_close(n, wanted):\n    np.testing.assert_allclose(seal(n), wanted)\n\n"
            f"def test_approx():\n    assert seal(3) == pytest.approx({numbers(3)})\n"
        },
    ),
}
