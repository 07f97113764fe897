"""The tests of a code row that a policy may see, and what it is told of those that it fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker.errors import BadMessage
from verdicts.code.judging import CaseTally
from verdicts.code.public import ShownTest, cut, public_tests

HIDDEN = "4711"
CASES = [{"input": "1\n", "output": "2\n"}, {"input": "3\n", "output": "4\n"}]
STDIO = (ShownTest("1\n", "2\n", is_stdio=True), ShownTest("3\n", "4\n", is_stdio=True))
ALL = {"inputs": ["1\n", "3\n", f"{HIDDEN}\n"], "outputs": ["2\n", "4\n", "4712\n"]}
CALLS = {"fn_name": "f", "inputs": [[1, "a"], [3, "b"], [int(HIDDEN), ""]], "outputs": [2, 4, 4712]}
ASSERTS = ["assert f(1) == 2", "assert f(3) == 4", f"assert f({HIDDEN}) == 4712"]
IN_ONE = f"def check(f):\n    assert f({HIDDEN}) == 4712\ncheck(f)\n"
SORTS = ["xs = [2, 1]; assert sorted(xs) == order(xs)", f"xs = [{HIDDEN}]; assert order(xs) == sorted(xs)"]


def test_a_row_s_public_tests_are_those_and_no_other(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], int | None, tuple[ShownTest, ...]]] = [
        ({"answer": ALL}, 2, STDIO),
        ({"answer": ALL}, 9, STDIO),
        ({"answer": ALL, "public_tests": {"input": ["1\n", "3\n"], "output": ["2\n", "4\n"]}}, None, STDIO),
        ({"answer": ALL, "public_test_cases": json.dumps(CASES)}, 1, STDIO),
        ({"answer": {"pytest": "whole"}, "public_test_cases": CASES}, None, STDIO),
        ({"answer": CALLS}, 2, (ShownTest("f(1, 'a')", "2"), ShownTest("f(3, 'b')", "4"))),
        (
            {
                "answer": CALLS,
                "public_test_cases": [{"input": '1\n"a"', "output": "2", "testtype": "functional"}],
            },
            None,
            (ShownTest("f(1, 'a')", "2"),),
        ),
        ({"answer": {"tests": ASSERTS}}, 2, tuple(map(ShownTest, ASSERTS[:2]))),
        ({"answer": {"functional": "\n".join(ASSERTS)}}, 1, (ShownTest(ASSERTS[0]),)),
        ({"answer": {"assert_case": ASSERTS}}, 1, (ShownTest(ASSERTS[0]),)),
        ({"answer": {"tests": SORTS}}, 1, (ShownTest(SORTS[0]),)),  # as the row has it, and not as it is run
        ({"answer": {"tests": ASSERTS}, "public_tests": ASSERTS[1:2]}, None, (ShownTest(ASSERTS[1]),)),
    ]
    for row, first, shown in cases:
        with subtests.test(row=row, first=first):
            found = public_tests({"type": "code", **row}, first)
            assert found.shown == shown
            tests = found.suite.tests
            assert len(tests if isinstance(tests, tuple) else tests.cases) == len(shown)
            assert HIDDEN not in repr(found)


def test_a_row_that_shows_no_test_says_what_it_lacks(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], int | None, str]] = [
        ({"answer": ALL}, None, r"calls no test public: .*`environment\.public: 2`"),
        ({"answer": {"functional": IN_ONE}}, 2, "one test, which stays hidden"),
        (
            {"answer": {"pytest": "from solution import f\ndef test_f(): assert f(1)"}},
            1,
            "a pytest file can't be shown",
        ),
        (
            {"answer": ALL, "public_tests": "two"},
            None,
            "public_tests of a code row is a list of tests, got 'two'",
        ),
        ({"answer": ALL, "public_tests": {"input": ["1"], "output": []}}, None, "lists of one length"),
        ({"answer": ALL, "public_tests": [{"input": "1"}]}, None, 'a test case is {"input": text'),
    ]
    for row, first, said in cases:
        with subtests.test(row=row, first=first), pytest.raises(BadMessage, match=said):
            public_tests({"type": "code", **row}, first)


def test_a_policy_is_told_the_test_what_it_gave_and_the_end_of_an_error() -> None:
    public = public_tests({"type": "code", "answer": ALL}, 2)
    tally = CaseTally(2, is_all=False)
    tally.add("expected '2', got '3'", printed="3\n")
    trace = "Traceback\n" + "x" * 90 + '\n  File "/tmp/a-7/program/main.py", line 2\nValueError: no'
    tally.add("exit code 1 ValueError: no", error=trace)
    assert public.told(tally, 60) == "\n\n".join(
        [
            "0 of 2 public tests passed.",
            "Test 1 failed.\nInput:\n1\nExpected:\n2\nGot:\n3\nexpected '2', got '3'",
            "Test 2 failed.\nInput:\n3\nExpected:\n4\nexit code 1 ValueError: no\n"
            + cut(
                "Traceback\n" + "x" * 90 + '\n  File "main.py", line 2\nValueError: no', 60, keeps_end=True
            ),
        ]
    )
    broken = CaseTally(2, is_all=False)
    broken.fail_rest("the program does not compile: no ;", error="main.cpp:1: no ;")
    assert public.told(broken, 60) == (
        "0 of 2 public tests passed.\n\nthe program does not compile: no ;\nmain.cpp:1: no ;"
    )
