"""Rows of code whose tests stand elsewhere, or bring nothing along: verl's of KodCode, and asserts without a prefix."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scorers.code.scorer import CodeTests
from tasks.route import route

ASSERTS = [
    "assert merge([(0, 1), (3, 5), (4, 7)]) == [(0, 1), (3, 7)]",
    "assert merge([(1, 2), (2, 3)]) == [(1, 3)]",
    "assert merge([]) == []",
]
RIGHT = """
def merge(spans: List[Tuple[int, int]]) -> List[Tuple[int, int]]:
    found = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found
"""
WRONG = RIGHT.replace("first <= found", "first < found")


def score(scorer: CodeTests, program: str, truth: dict[str, Any]) -> float | None:
    """Score a program by a row of verl, whose ground truth is JSON's text."""
    row = {"data_source": "taco", "prompt": [], "reward_model": {"ground_truth": json.dumps(truth)}}
    _, info = route(row)
    scorer.check_row(info)
    return scorer.score(f"```python\n{program}\n```", info).value


def test_verls_rows_of_kodcode_are_scored_by_their_asserts(scorer: CodeTests) -> None:
    truth = {"assert_case": ASSERTS, "fn_name": "merge", "inputs": [""], "outputs": [None]}
    programs = (RIGHT, WRONG, "def merge(spans): return []", "import sys\nsys.exit(0)")
    assert [score(scorer, program, truth) for program in programs] == [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("truth", "right", "wrong"),
    [
        (
            {"functional": "assert Solution().f([1, 2]) == 3\nassert Solution().f([]) == 0"},
            "class Solution:\n    def f(self, xs: List[int]) -> int: return sum(xs)",
            "class Solution:\n    def f(self, xs: List[int]) -> int: return len(xs)",
        ),
        (
            {"functional": "def check(g):\n    assert g('aab') == {'a': 2, 'b': 1}\n    assert g('') == {}\ncheck(f)"},
            "def f(s): return dict(Counter(s))",
            "def f(s): return dict(Counter(s + 'a'))",
        ),
        (
            {"functional": "assert gcd(4, 6) == 2\nassert gcd(5, 7) == 1"},
            "def gcd(a, b):\n    while b: a, b = b, a % b\n    return a",
            "x = 1",
        ),
        (
            {"inputs": [[4, 6], [5, 7]], "outputs": [2, 1], "fn_name": "gcd"},
            "from math import gcd",
            "x = 1",
        ),
        (
            {"functional": "assert area(1) == pytest.approx(3.14159, abs=1e-4)\nassert area(0) == 0"},
            "from math import pi\ndef area(r): return pi * r ** 2",
            "def area(r): return 3 * r",
        ),
    ],
)  # fmt: skip
def test_an_answer_without_imports_is_right_and_one_without_work_is_not(
    scorer: CodeTests, truth: dict[str, Any], right: str, wrong: str
) -> None:
    assert score(scorer, right, truth) == 1.0
    assert score(scorer, wrong, truth) == 0.0
