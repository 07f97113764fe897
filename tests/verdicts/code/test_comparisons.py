"""What a result or an output is compared with, and integers and lines as long as rows and answers write them."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from broker.errors import BadMessage
from sandbox.harness.checks import same, shown
from sandbox.harness.pipe import ProtocolError, json_value
from scorers.code.scorer import CodeTests
from tests.support.tried_again import judged
from verdicts.code.long_integers import MAX_DIGITS, long_integers
from verdicts.code.output import difference
from verdicts.code.rows import StdioCase, suite_of

pytestmark = pytest.mark.process

HUGE = 10**400

# What a call gave, what the row expects.
SAME: list[tuple[Any, Any]] = [
    (0, False), (False, 0), (1, True), (True, 1), (2.0, 2), (2, 2.0), (True, 1.0), (1.0, True),
    (0.0, False), (-0.0, 0), ([1, 0], [True, False]), ([True, False], [1, 0]), (2 + 0j, 2),
    (Decimal(2), 2), (Fraction(1, 2), 0.5), (0.1 + 0.2, 0.3), (10**20, 1e20), (HUGE, HUGE), (None, None),
    ([None], [None]), ("1", "1"), ([], []), ({1: 2.0}, {"1": 2}), ({True: 1}, {"true": True}),
    ((1, [2.0, (3, 0)]), [True, [2, [3.0, False]]]), ({"a": 1, "b": [0]}, {"a": True, "b": [False]}),
]  # fmt: skip
OTHER: list[tuple[Any, Any]] = [
    (0, None), (None, 0), (False, None), (None, False), ("1", 1), (1, "1"), ("", False), ([], False),
    ([], 0), ([], None), ("True", True), ("true", True), (2, True), (2, 1), (2.0000001, 2),
    (10**20 + 1, 10**20), ([1], [2]), ([1, 0], [True]), ([True, 2], [1, 1]), ({1, 2}, [1, 2]),
    (deque([1]), [1]), (range(2), [0, 1]), (b"a", "a"), ({"a": 1}, {"a": 2}), ({"1": 1, 1: 1}, {"1": 1}),
    (float("nan"), 1.0), (float("inf"), 1e308), (HUGE, 5.0), (5.0, HUGE), (object(), 1),
]  # fmt: skip


@pytest.mark.parametrize(("pairs", "is_same"), [(SAME, True), (OTHER, False)], ids=["the same", "another"])
def test_a_result_is_what_python_says_that_it_is(pairs: list[tuple[Any, Any]], is_same: bool) -> None:
    for got, expected in pairs:
        told = f"{shown(got)} for {shown(expected)}"
        assert same(got, expected) is is_same, told
        assert same([got, [got]], [expected, [expected]]) is is_same, told
        assert same({"key": got}, {"key": expected}) is is_same, told


def test_an_integer_in_a_reason_costs_no_time() -> None:
    started = time.process_time()
    with long_integers():
        for value in (10**90_000, [10**90_000], {"a": (10**90_000,)}):
            assert "a value of type" in shown(value)
        assert sys.get_int_max_str_digits() == MAX_DIGITS
    assert time.process_time() - started < 0.1


def test_only_a_row_has_integers_of_many_digits_in_decimals() -> None:
    text = "7" * 4000
    assert json_value(text, is_row=True) == int(text)
    with pytest.raises(ProtocolError, match="too long"):
        json_value(text)


LONG = "7" * 6000
NUMBER = int(LONG[:4000]) * 10**2000 + int(LONG[:2000])
PROGRAM = f"""
def power(n): return 10 ** n
def plus(n): return n + 1
def read(text): return int(text)
def written(n): return str(n)
def constant(): return {LONG}
"""


@pytest.mark.prove(after=3)
@pytest.mark.parametrize(
    "answer",
    [
        {
            "tests": [
                "assert power(6000) == 10 ** 6000",
                f"assert constant() == {LONG}",
                f"assert plus({LONG}) == {LONG[:-1]}8",
                f"assert read('{LONG}') == {LONG}",
                f"assert written({LONG}) == '{LONG}'",
                "assert str(power(6000)) == '1' + '0' * 6000",
                f"assert int(written({LONG})) % 10 == 7",
                f"assert [power(5000), {{1: power(5001)}}] == [1{'0' * 5000}, {{1: 1{'0' * 5001}}}]",
            ]
        },
        {"functional": f"def check(f):\n    assert f({LONG}) == {LONG[:-1]}8\ncheck(plus)"},
        {"fn_name": "plus", "inputs": [LONG, LONG], "outputs": [LONG[:-1] + "8"] * 2},
        {"fn_name": "plus", "inputs": [[NUMBER]], "outputs": [NUMBER + 1]},
        {"fn_name": "written", "inputs": [LONG], "outputs": [f'"{LONG}"']},
        {"pytest": f"from solution import plus\ndef test_it():\n    assert plus({LONG}) == {LONG[:-1]}8\n"},
    ],
    ids=["asserts", "check", "calls told", "calls", "text", "pytest"],
)
def test_integers_of_many_digits_travel_in_each_shape(scorer: CodeTests, answer: dict[str, Any]) -> None:
    score = judged(scorer, PROGRAM, answer, "code_verifiable")
    assert score.value == 1.0, score.reason
    wrong = (
        PROGRAM.replace("n + 1", "n + 2").replace("10 ** n", "10 ** n + 1").replace("str(n)", "str(n)[1:]")
    )
    assert judged(scorer, wrong, answer, "code_verifiable").value != 1.0


def test_integers_of_many_digits_are_read_and_printed(scorer: CodeTests) -> None:
    answer = {"test_cases": [{"input": f"{LONG}\n", "output": f"{LONG[:-1]}8\n"}]}
    assert judged(scorer, "print(int(input()) + 1)", answer).value == 1.0
    assert judged(scorer, "print(int(input()) + 2)", answer).value == 0.0


def test_a_row_with_more_digits_than_can_be_read_in_time_is_refused() -> None:
    started = time.process_time()
    for answer in (
        {"fn_name": "f", "inputs": ["7" * (MAX_DIGITS + 1)], "outputs": ["1"]},
        {"tests": [f"assert f({'7' * (MAX_DIGITS + 1)}) == 1"]},
    ):
        with pytest.raises(BadMessage, match=str(MAX_DIGITS)):
            suite_of({"type": "code", "answer": answer}, split=False)
    assert time.process_time() - started < 1.0
    with pytest.raises(ValueError, match="4300"):  # elsewhere the limit is Python's own
        json.loads("7" * 5000)


def test_lines_of_a_case_end_with_a_line_feed(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [
        ("3 5\r\nab\r\n", "3 5\nab\n"), ("\r\n\r\n", "\n\n"), ("a\r\nb\nc", "a\nb\nc"),
        (["a\r", "b\r\n"], "a\nb\n"),
        ("a\rb", "a\rb"),  # no end of a line
    ]  # fmt: skip
    for given, stdin in cases:
        for answer in (
            {"test_cases": [{"input": given, "output": given}]},
            {"inputs": [given], "outputs": [given]},
        ):
            with subtests.test(answer=answer):
                tests = suite_of({"type": "code", "answer": answer}, split=False).tests
                assert tests == (StdioCase(stdin=stdin, expected=stdin),)


@pytest.mark.parametrize(
    "program",
    [
        ("import sys\nprint(len(sys.stdin.buffer.readline()), len(input()))"),
        ("import os\nline, other, _ = os.read(0, 100).split(b'\\n')\nprint(len(line) + 1, len(other))"),
    ],
)
def test_a_program_that_reads_bytes_sees_no_carriage_return(scorer: CodeTests, program: str) -> None:
    answer = {"test_cases": [{"input": "ab\r\nc\r\n", "output": "3 1\r\n"}]}
    assert judged(scorer, program, answer).value == 1.0


# What was printed, and what was expected.
SAME_TEXT = [
    ("8", "8"), ("8\n", "8"), ("8", "8\n\n"), ("1 2 \n3\t\n", "1 2\n3"), ("a\r\nb\r\n", "a\nb"),
    ("", ""), ("\n\n", ""), ("0.3333333", "0.33333333"), ("1e-7", "0.0"), ("2.0", "2.00"), ("2", "2.0"),
    ("-.5", "-0.5"), ("1000000.5", "1000000.0"), ("x 1.0000001 y", "x 1.0 y"), ("1e999", "1e999"),
]  # fmt: skip
OTHER_TEXT = [
    ("9", "8"), ("", "8"), ("8\n8", "8"), ("8", "8\n8"), ("yes", "YES"), ("1  2", "1 2"), (" 8", "8"),
    ("2.0", "2"), ("8.0000001", "8"), ("0.333", "0.33333333"), ("nan", "0.0"), ("inf", "1.0"),
    ("1_0.0", "10.0"), ("8\0", "8"), ("1\n\n2", "1\n2"), ("0x8", "8"),
    ("99999999999999999999", "99999999999999999998"), ("٣.0", "3.0"), ("5", "1e999"),
    ("-7.25", "12e345"), ("2e999", "1e999"), ("1e999", "5.0"),
]  # fmt: skip
SAME_IN_II_THOUGHT = [("yes", "YES"), (" 8", "8"), ("8.00001", "8"), ("100001", "100000"), ("1E999", "1e999")]
OTHER_IN_II_THOUGHT = [("8.001", "8"), ("8\n9", "8"), ("1  2", "1 2"), ("5", "1e999"), ("2e999", "1e999")]


def test_outputs_are_the_same_by_the_rule_of_their_mode(subtests: pytest.Subtests) -> None:
    for printed, expected, is_same, compatible in [
        *((*pair, True, False) for pair in SAME_TEXT),
        *((*pair, False, False) for pair in OTHER_TEXT),
        *((*pair, True, True) for pair in SAME_IN_II_THOUGHT),
        *((*pair, False, True) for pair in OTHER_IN_II_THOUGHT),
    ]:
        with subtests.test(printed=printed, expected=expected, compatible=compatible):
            assert (difference(printed, expected, compatible=compatible) is None) is is_same


def test_the_reason_names_the_first_difference(subtests: pytest.Subtests) -> None:
    for printed, expected, said in [
        ("7", "8", "expected '8', got '7'"),
        ("1\n7", "1\n8", "line 2: expected '8', got '7'"),
        ("1", "1\n8", "line 2: expected '8', got no such line"),
        ("1\n7", "1", "line 2: expected no such line, got '7'"),
    ]:
        with subtests.test(printed=printed, expected=expected):
            assert difference(printed, expected) == said


def test_long_outputs_make_short_reasons() -> None:
    reason = difference("a" * 5_000_000, "b" * 5_000_000)
    assert reason is not None
    assert len(reason) < 200
    # No float of a million digits is made.
    assert difference("1" * 1_000_000, "1" * 1_000_000 + ".0") is not None
