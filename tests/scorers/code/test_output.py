"""Printed against expected output: the strict rule, and II-Thought's."""

from __future__ import annotations

import pytest

from scorers.code.output import difference

pytestmark = pytest.mark.process

# What was printed, and what was expected.
SAME = [
    *(("8", "8"), ("8\n", "8"), ("8", "8\n\n"), ("1 2 \n3\t\n", "1 2\n3"), ("a\r\nb\r\n", "a\nb"), ("", "")),
    *(
        ("\n\n", ""),
        ("0.3333333", "0.33333333"),
        ("1e-7", "0.0"),
        ("2.0", "2.00"),
        ("2", "2.0"),
        ("-.5", "-0.5"),
    ),
    *(("1000000.5", "1000000.0"), ("x 1.0000001 y", "x 1.0 y"), ("1e999", "1e999")),
]
OTHER = [
    *(
        ("9", "8"),
        ("", "8"),
        ("8\n8", "8"),
        ("8", "8\n8"),
        ("yes", "YES"),
        ("1  2", "1 2"),
        (" 8", "8"),
        ("2.0", "2"),
    ),
    *(
        ("8.0000001", "8"),
        ("0.333", "0.33333333"),
        ("nan", "0.0"),
        ("inf", "1.0"),
        ("1_0.0", "10.0"),
        ("8\0", "8"),
    ),
    *(("1\n\n2", "1\n2"), ("0x8", "8"), ("99999999999999999999", "99999999999999999998"), ("٣.0", "3.0")),
    # What overflows a float is text: by numbers anything is within an infinite tolerance.
    *(("5", "1e999"), ("-7.25", "12e345"), ("2e999", "1e999"), ("1e999", "5.0")),
]
SAME_IN_II_THOUGHT = [("yes", "YES"), (" 8", "8"), ("8.00001", "8"), ("100001", "100000"), ("1E999", "1e999")]
OTHER_IN_II_THOUGHT = [("8.001", "8"), ("8\n9", "8"), ("1  2", "1 2"), ("5", "1e999"), ("2e999", "1e999")]


@pytest.mark.parametrize(
    ("printed", "expected", "is_same", "compatible"),
    [
        *((*pair, True, False) for pair in SAME),
        *((*pair, False, False) for pair in OTHER),
        *((*pair, True, True) for pair in SAME_IN_II_THOUGHT),
        *((*pair, False, True) for pair in OTHER_IN_II_THOUGHT),
    ],
)
def test_what_is_the_same(printed: str, expected: str, is_same: bool, compatible: bool) -> None:
    assert (difference(printed, expected, compatible=compatible) is None) is is_same


@pytest.mark.parametrize(
    ("printed", "expected", "said"),
    [
        ("7", "8", "expected '8', got '7'"),
        ("1\n7", "1\n8", "line 2: expected '8', got '7'"),
        ("1", "1\n8", "line 2: expected '8', got no such line"),
        ("1\n7", "1", "line 2: expected no such line, got '7'"),
    ],
)
def test_the_reason_names_the_first_difference(printed: str, expected: str, said: str) -> None:
    assert difference(printed, expected) == said


def test_long_outputs_make_short_reasons() -> None:
    reason = difference("a" * 5_000_000, "b" * 5_000_000)
    assert reason is not None
    assert len(reason) < 200
    # No float of a million digits is made.
    assert difference("1" * 1_000_000, "1" * 1_000_000 + ".0") is not None
