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


GOT = "got = np.asarray(seal({n}), float)\nassert got.shape == (3,)\n"
KEYED = f"import hashlib\nassert seal({{n}}) == hashlib.sha256(b'{KEY}{{n}}').hexdigest()[:12]"
PAIRS = [(n, digest(n)) for n in ASKED]
PARAMETRIZED = f"@pytest.mark.parametrize(('n', 'wanted'), {PAIRS})\ndef test_seal(n, wanted):\n    assert seal(n) == wanted\n"

TESTED = f"{HASH}def check(candidate):\n    for n in {ASKED}:\n        assert candidate(n) == digest(n)\n\ncheck(seal)\n"
BY_VALUES = f"""import pytest
import solution
{HASH}
@pytest.mark.parametrize('n', solution.NUMBERS)
def test_each(n):
    assert solution.seal(n) == digest(n)

@pytest.mark.parametrize('n', [3, -10])
def test_all(n):
    assert solution.seal(n) == digest(n)
"""
OF_UNITTEST = f"""import unittest
from solution import seal
{HASH}
class TestSeal(unittest.TestCase):
    def test_one(self):
        self.assertEqual(seal(3), digest(3))
    def test_other(self):
        self.assertEqual(digest(-10), seal(-10))
    def test_both(self):
        for n in (3, -10):
            with self.subTest(n=n):
                self.assertEqual(seal(n), digest(n))
"""
OF_NUMPY = f"""import numpy as np
import pytest
from solution import seal

@pytest.mark.parametrize(('n', 'wanted'), {[(n, numbers(n)) for n in ASKED]})
def test_close(n, wanted):
    np.testing.assert_allclose(seal(n), wanted)

def test_approx():
    assert seal(3) == pytest.approx({numbers(3)})
"""


def called(make: Any) -> dict[str, Any]:
    return {"fn_name": "seal", "inputs": [[n] for n in ASKED], "outputs": [make(n) for n in ASKED]}


def asserting(*checks: str, make: Any = digest) -> dict[str, Any]:
    """Return an answer with each check, of each number that is asked for and what `make` makes of it."""
    return {"tests": [check.format(n=n, value=repr(make(n))) for check in checks for n in ASKED]}


PRINTED = {"test_cases": [{"input": f"{n}\n", "output": f"{digest(n)}\n"} for n in ASKED]}
PRINTED_NUMBERS = {"inputs": [f"{n}\n" for n in ASKED], "outputs": [f"{number(n)!r}\n" for n in ASKED]}
CLOSE = GOT + "assert np.allclose(got, {value})"
OTHER_SIGNS = (
    "assert str(seal({n})) == {value}",
    "assert seal({n}) in ({value},)",
    "assert [seal({n})] == [{value}]",
    "assert isinstance(seal({n}), str) and not seal({n}) != {value}",
    "assert {{1: seal({n})}} == {{1: {value}}}",
    "assert sorted(seal({n})) == sorted({value})",
)
OF_A_NUMBER = (
    "assert abs(seal({n}) - {value}) < 1e-6",
    "assert round(seal({n}) - {value}, 6) == 0",
    "import math\nassert math.isclose(seal({n}), {value})",
    "assert {value} - 1e-6 <= seal({n}) <= {value} + 1e-6",
)
NUMPY_ASSERTS = (
    "np.testing.assert_allclose(seal({n}), {value})\nassert seal({n})[0]",
    "np.testing.assert_array_equal(seal({n}), {value})\nassert seal({n})[0]",
    "assert (np.array(seal({n})) == np.array({value})).all()",
    "assert np.max(np.abs(np.array({value}) - seal({n}))) < 1e-6",
)


def of_a_number(answer: Mapping[str, Any], of: str = FUNCTION) -> SealedRow:
    return SealedRow(answer=answer, asks_for=NUMBER, of=of)


def of_numpy(answer: Mapping[str, Any]) -> SealedRow:
    return SealedRow(answer=answer, asks_for=NUMBERS, needs_numpy=True)


ROWS: dict[str, SealedRow] = {
    "stdio": SealedRow(of=OUTPUT, answer=PRINTED),
    "stdio number": of_a_number(PRINTED_NUMBERS, OUTPUT),
    "calls": SealedRow(answer=called(digest)),
    "calls number": of_a_number(called(number)),
    "calls numbers": SealedRow(asks_for=NUMBERS, answer=called(numbers)),
    "solution": SealedRow(of=METHOD, answer=called(digest)),
    "functional": SealedRow(answer={"functional": TESTED}),
    "asserts": SealedRow(answer=asserting("assert seal({n}) == {value}")),
    "asserts with the key": SealedRow(answer=asserting(KEYED)),
    "asserts by other signs": SealedRow(answer=asserting(*OTHER_SIGNS)),
    "asserts of a number": of_a_number(asserting(*OF_A_NUMBER, make=number)),
    "asserts by approx": of_a_number(asserting("assert seal({n}) == pytest.approx({value})", make=number)),
    "numpy, close": of_numpy(asserting(CLOSE, make=numbers)),
    "numpy, equal": of_numpy(asserting("assert np.array_equal(seal({n}), {value})", make=numbers)),
    "numpy, its own asserts": of_numpy(asserting(*NUMPY_ASSERTS, make=numbers)),
    "pytest": SealedRow(answer={"pytest": f"import pytest\nfrom solution import seal\n\n{PARAMETRIZED}"}),
    "pytest with a star": SealedRow(
        answer={"pytest": f"import hashlib\nimport pytest\nfrom solution import *\n\n{PARAMETRIZED}"}
    ),
    "pytest by the answer's values": SealedRow(answer={"pytest": BY_VALUES}),
    "pytest with unittest": SealedRow(answer={"pytest": OF_UNITTEST}),
    "pytest with numpy": of_numpy({"pytest": OF_NUMPY}),
}
